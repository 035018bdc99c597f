# The interpreter on its own: containers, numbers, text, processes, threads, an event loop, faults.
# needs: python3
# seconds: 180
# stderr: varies
set -eu
cat > main.py <<'PY'
import asyncio, collections, ctypes, decimal, fractions, hashlib, itertools, json, math, multiprocessing, os
import random, re, signal, sqlite3, struct, subprocess, sys, threading, time, zlib
random.seed(7)
numbers = [random.randrange(10**6) for _ in range(50000)]
print(sum(sorted(numbers)[::7]), collections.Counter(n % 10 for n in numbers).most_common(3))
print(hashlib.sha256(json.dumps(numbers).encode()).hexdigest(), zlib.crc32(bytes(1000)))
print(math.factorial(200) % (10**9 + 7), decimal.Decimal(2).sqrt(), fractions.Fraction(1, 3) + 1, 2**0.5)
print(len(re.findall(r'(\d)\1', json.dumps(numbers))), struct.pack('<Id', 5, 2.5).hex())
def generate(n):
    for i in range(n): yield i * i
print(sum(itertools.islice(generate(10**6), 0, 10**5, 3)))
class Recursion: pass
try:
    def f(): return f()
    f()
except RecursionError: print('recursion')
lock, total = threading.Lock(), 0
def add(n):
    global total
    for i in range(1000):
        with lock: total += n
threads = [threading.Thread(target=add, args=(n,)) for n in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]; print(total)
async def tick(n):
    for i in range(5): await asyncio.sleep(0.001)
    return n
async def main():
    process = await asyncio.create_subprocess_exec('echo', 'async', stdout=subprocess.PIPE)
    print((await process.communicate())[0]); print(sum(await asyncio.gather(*(tick(i) for i in range(50)))))
asyncio.run(main())
def square(x): return x * x
with multiprocessing.get_context('fork').Pool(3) as pool: print(sum(pool.map(square, range(1000))))
print(subprocess.run(['sh', '-c', 'cat; exit 3'], input=b'in', capture_output=True))
got = []; signal.signal(signal.SIGALRM, lambda n, f: got.append(n)); signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
while len(got) < 3: pass
signal.setitimer(signal.ITIMER_REAL, 0); print(got[:3])
db = sqlite3.connect(':memory:'); db.execute('create table t(x)'); db.executemany('insert into t values (?)', [(n,) for n in numbers[:1000]])
print(db.execute('select max(x), avg(x) from t').fetchone())
libc = ctypes.CDLL(None); callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
array = (ctypes.c_int * 5)(5, 1, 4, 2, 3); libc.qsort(array, 5, 4, callback(lambda a, b: a[0] - b[0])); print(list(array))
pid = os.fork()
if pid == 0: ctypes.string_at(8)
print(os.waitpid(pid, 0)[1] & 127)
sys.exit(6)
PY
PYTHONHASHSEED=0 /usr/bin/python3 main.py || echo "status $?"
/usr/bin/python3 -c 'import os; os.abort()' || echo "status $?"
/usr/bin/python3 -c 'print("ok"); 1/0' 2>&1 | tail -1
