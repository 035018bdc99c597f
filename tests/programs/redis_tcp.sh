# The same server on a loopback port, with I/O threads and persistence to an append-only file.
# needs: redis-server redis-cli redis-benchmark
# seconds: 180
# slow
set -eu
for port in 26379 26380 26381 26382; do
  redis-server --port $port --io-threads 2 --appendonly yes --dir "$PWD" --logfile log &
  server=$!
  for _ in $(seq 1 100); do
    redis-cli -p $port ping > /dev/null 2>&1 && break 2
    kill -0 $server 2>/dev/null || break
    sleep 0.1
  done
done
redis-benchmark -p $port -n 20000 -c 50 -q --csv -t ping,set,get,incr,lpush,lrange_100 | cut -d, -f1
redis-cli -p $port dbsize
redis-cli -p $port bgrewriteaof; sleep 2
redis-cli -p $port shutdown || true
wait $server; echo "server $?"
