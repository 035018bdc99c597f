// Code that the JIT compiler optimises, deoptimises and optimises again.
function makePoint(i) {
  return i % 3 === 0 ? { x: i, y: i * 2 } : { x: i, y: i / 2, label: "p" + (i % 10) };
}

function collatz(limit) {
  let longest = 0, start = 0;
  for (let i = 1; i < limit; i++) {
    let n = i, steps = 0;
    while (n !== 1) { n = n % 2 === 0 ? n / 2 : 3 * n + 1; steps++; }
    if (steps > longest) { longest = steps; start = i; }
  }
  return [start, longest];
}

let sum = 0;
const labels = new Map();
for (let i = 0; i < 1500000; i++) {
  const p = makePoint(i);
  sum += p.x - p.y;
  if (p.label) labels.set(p.label, (labels.get(p.label) || 0) + 1);
}
console.log(sum, [...labels].sort().join(" "));
console.log(collatz(500000).join(" "));
const sorted = Array.from({ length: 200000 }, (_, i) => (i * 7919) % 200003).sort((a, b) => a - b);
console.log(sorted[1000], JSON.stringify(sorted.slice(0, 5)));
