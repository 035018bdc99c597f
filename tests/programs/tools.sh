# A debugger's and a fetcher's start-up, keys, an editor's script.
# needs: gdb curl ssh-keygen
set -eu
gdb --version | head -1
gdb -nx -batch -ex 'print 6 * 7' -ex 'python print(sum(range(10)))' -ex 'ptype int'
seq 1 1000 > file; curl -s "file://$PWD/file" | sha256sum; curl -s file:///nowhere || echo "status $?"
ssh-keygen -q -t ed25519 -N '' -f key; ssh-keygen -y -f key | cut -d' ' -f1; ssh-keygen -l -f key | wc -w
ssh-keygen -q -t rsa -b 2048 -N '' -f rsa; echo text > text; ssh-keygen -q -Y sign -f rsa -n file text; head -1 text.sig
