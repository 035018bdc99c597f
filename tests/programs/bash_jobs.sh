# Job control without a terminal: process groups, stop and continue, wait -n, disown.
# stderr: varies
set -um
sleep 30 &
sleeper=$!
jobs
kill -STOP %1
sleep 0.3
jobs
bg %1
sleep 0.2
jobs
kill %1
wait $sleeper
echo "status $?"
for delay in 0.1 0.5 0.9; do ( sleep $delay; exit "${delay#0.}" ) & done
wait -n; echo "first $?"
wait -n; echo "second $?"
wait -n; echo "third $?"
( exec bash -c 'kill -TSTP $$; echo resumed; exit 5' ) &
job=$!
sleep 0.4
jobs -s | sed 's/ .*Stopped/ Stopped/' | cut -c1-12
kill -CONT $job
sleep 0.5
wait $job
echo "after stop $?"
sleep 30 & sleep 30 &
kill $(jobs -p)
wait
echo done
true | sleep 0.1 | (exit 6)
echo "pipeline $?"
