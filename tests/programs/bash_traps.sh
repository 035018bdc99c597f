# Traps on signals, errors and exit; signals to children and to the shell itself.
# stderr: varies
set -u
trap 'echo exit trap, status $?' EXIT
trap 'echo usr1' USR1
trap 'echo err on line $LINENO' ERR
kill -USR1 $$
kill -USR1 $$
false
( trap 'echo child got term; exit 7' TERM; kill -TERM "$BASHPID"; sleep 5 )
echo "child $?"
bash -c 'trap "" INT; kill -INT $$; echo survived'
bash -c 'kill -SEGV $$' 2>/dev/null
echo "segv $?"
bash -c 'trap "echo hup; trap - HUP; kill -HUP \$\$" HUP; kill -HUP $$; echo not reached' 2>/dev/null
echo "hup $?"
sleep 20 &
child=$!
kill -KILL $child
wait $child 2>/dev/null
echo "killed $?"
( sleep 0.2; kill -USR1 $$ ) &
wait $!
echo "interrupted wait $?"
wait
trap - ERR
trap 'echo chld' CHLD
/bin/true
trap - CHLD
timeout 0.2 sleep 5
echo "timeout $?"
timeout -s KILL 0.2 bash -c 'while :; do :; done'
echo "busy $?"
trap 'echo return trap' RETURN
f() { echo in f; }
declare -ft f
f
trap -p | sort
exit 0
