# The same ground in another shell: pipes, traps, background jobs, here-documents, exec.
# shell: dash
set -eu
trap 'echo leaving' EXIT
trap 'echo usr2' USR2
kill -USR2 $$
i=0
while [ $i -lt 200 ]; do i=$((i + 1)); done
echo $i
seq 1 1000 | while read -r n; do [ $((n % 100)) -eq 0 ] && echo "$n"; done || true
x=$(echo inner; echo more)
echo "$x" | sed 's/^/> /'
( exit 9 ) || echo "status $?"
sleep 0.1 &
wait $!
echo "waited $?"
sleep 30 &
kill $!
# Only a shell that sees the end while it waits says so, and which comes first is a matter of luck.
wait $! 2> /dev/null || echo "killed $?"
cat <<EOF | tr '[:lower:]' '[:upper:]'
text for $i
EOF
exec 3> out; echo through three >&3; exec 3>&-; cat out
for f in a b c; do mkdir -p "d/$f"; : > "d/$f/file"; done
find d | sort
dash -c 'kill -TERM $$' || echo "term $?"
sh -c 'echo $0 $1' name argument
set -- $(printf '%s ' $(seq 1 300)); echo $#
