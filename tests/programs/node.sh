# Code generated while running, optimised, and thrown away again; garbage collection; promises.
# needs: node
# seconds: 180
set -eu
cat > hot.js <<'JS'
function mix(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 31 + i) >>> 0; return x; }
console.log(mix(5e6));
class A { f(x) { return x + 1; } } class B { f(x) { return x * 2; } } class C { f(x) { return 'c' + x; } }
const objects = [new A(), new B(), new A(), new C()];
let out = 0;
for (let i = 0; i < 300000; i++) { const r = objects[i % (i < 200000 ? 3 : 4)].f(i); out += typeof r === 'number' ? r : r.length; }
console.log(out);
const map = new Map(); for (let i = 0; i < 100000; i++) map.set('k' + (i * 7919) % 50021, { i, list: [i, i + 1] });
console.log(map.size, [...map.values()].reduce((s, v) => s + v.list[1], 0));
console.log('a1b22c333'.repeat(1000).replace(/\d+/g, d => d.length).length);
const f64 = new Float64Array(100000).map((_, i) => Math.sin(i)); console.log(f64.reduce((a, b) => a + b).toFixed(6));
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } console.log(fib(25));
try { (function deep(n) { return deep(n + 1) + 1; })(0); } catch (e) { console.log(e instanceof RangeError); }
console.log(JSON.stringify(JSON.parse('{"a":[1,2,{"b":null}]}')), 2n ** 100n);
for (let i = 0; i < 50; i++) new Array(100000).fill(i);
(async () => { let s = 0; for await (const x of (async function* () { for (let i = 0; i < 1000; i++) yield i; })()) s += x; console.log(s);
  await new Promise(r => setTimeout(r, 20)); console.log('timer');
  const { execFileSync, spawn } = require('child_process'); console.log(execFileSync('echo', ['child']).toString().trim());
  const p = spawn('sh', ['-c', 'exit 3']); p.on('exit', c => console.log('exit', c));
  const zlib = require('zlib'), crypto = require('crypto'), fs = require('fs');
  console.log(zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(100000, 'x'))).length, crypto.createHash('sha256').update('x').digest('hex'));
  fs.writeFileSync('file', 'text'); console.log(await fs.promises.readFile('file', 'utf8'));
  console.log(eval('var q = 0; for (var i = 0; i < 1000; i++) q += new Function("x", "return x * " + i)(2); q'));
})();
JS
node hot.js
node -e 'console.log(process.argv.length, process.exitCode = 5)' || echo "status $?"
node -e 'throw new Error("x")' 2> /dev/null || echo "status $?"
node -e 'process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 1e5)' || echo "status $?"
