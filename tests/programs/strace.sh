# strace and what it traces, both under the engine: calls, their arguments and results, signals, children, injected faults.
# needs: gcc strace
# seconds: 120
set -eu
calls=execve,openat,read,write,close,getcwd,chdir,kill,exit_group,pipe2,dup2,wait4
mask() { sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/si_pid=[0-9]+/si_pid=N/; s/^[0-9]+ +//; s/(kill|wait4)\([0-9]+/\1(N/; s/ = [0-9]{3,}$/ = N/'; }

echo "hello" >file
strace -e trace=$calls -o out cat file
mask <out | grep -E 'cat|file|hello|exit'
echo "== errors"
strace -e trace=openat,exit_group -o out cat missing || echo "status $?"
grep missing out
echo "== signals"
strace -e trace=kill,exit_group -o out sh -c 'trap "echo trapped" USR1; kill -USR1 $$; kill -TERM $$' || echo "status $?"
mask <out
echo "== children"
strace -f -e trace=execve,exit_group -o out sh -c 'true & wait; /bin/echo one; (exit 3); echo $?'
mask <out | grep -v 'exited\|resumed\|unfinished' | grep -c 'execve.* = 0'
grep -c 'exited with' out
echo "== counted"
strace -c -e trace=write -o out sh -c 'for i in 1 2 3 4 5; do echo $i; done'
awk '$NF == "write" { print $(NF - 1), $NF }' out
echo "== injected"
strace -e inject=write:error=ENOSPC:when=2 -e trace=write -o out sh -c 'echo one; echo two; echo three' || echo "status $?"
mask <out
strace -e inject=getcwd:retval=0 -e trace=getcwd -o out true
strace -e trace=nanosleep,clock_nanosleep -e inject=clock_nanosleep:retval=0 -o out sleep 100
grep -c INJECTED out
echo "== by the kernel's filter"
strace -f --seccomp-bpf -e trace=chdir -o out sh -c 'cd /; cd /tmp; true'
mask <out | grep chdir
