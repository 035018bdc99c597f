# A server with background threads and forks, driven by its client and its benchmark.
# needs: redis-server redis-cli redis-benchmark
# seconds: 180
set -eu
redis-server --port 0 --unixsocket "$PWD/socket" --save '' --dir "$PWD" --logfile log --daemonize no &
server=$!
cli() { redis-cli -s "$PWD/socket" "$@"; }
for _ in $(seq 1 200); do cli ping > /dev/null 2>&1 && break; sleep 0.1; done
cli ping
cli set key value; cli get key; cli incrby counter 41; cli incr counter
seq 1 2000 | awk '{ print "RPUSH list", $1 }' | cli | tail -1
cli llen list; cli lrange list 0 2
cli hset hash a 1 b 2; cli hgetall hash
cli eval 'local s = 0; for i = 1, 100000 do s = s + i end; return s' 0
cli zadd scores 3 c 1 a 2 b; cli zrange scores 0 -1 withscores
cli debug digest
redis-benchmark -s "$PWD/socket" -n 3000 -c 20 -P 4 -q -t set,get,lpush --csv | cut -d, -f1 | tail -3
cli bgsave; for _ in $(seq 1 100); do [ -s dump.rdb ] && break; sleep 0.1; done
[ "$(head -c 5 dump.rdb)" = REDIS ] && echo saved
cli get nothing; cli bad command || true
cli shutdown nosave || true
wait $server; echo "server $?"
