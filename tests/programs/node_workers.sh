# Threads that each compile and run their own code, with shared memory and messages.
# needs: node
# seconds: 180
set -eu
cat > workers.js <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
  const shared = new SharedArrayBuffer(8), counter = new Int32Array(shared); let left = 4; const results = [];
  for (let i = 0; i < 4; i++) {
    const worker = new Worker(__filename, { workerData: { i, shared } });
    worker.on('message', m => results.push(m));
    worker.on('exit', () => { if (--left === 0) console.log(results.sort().join(' '), counter[0], counter[1]); });
  }
} else {
  const counter = new Int32Array(workerData.shared);
  let x = workerData.i;
  for (let k = 0; k < 1000000; k++) { x = (x * 33 + k) >>> 0; if (k % 1000 === 0) Atomics.add(counter, 0, 1); }
  Atomics.add(counter, 1, 1); Atomics.notify(counter, 1);
  while (Atomics.load(counter, 1) < 4) Atomics.wait(counter, 1, Atomics.load(counter, 1), 100);
  parentPort.postMessage(workerData.i + ':' + x);
}
JS
node workers.js
