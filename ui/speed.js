// Measures the page on a recording: its first paint, and how long it takes from a click until every pane shows the new moment.
//
//   npm ci && npm run speed -- RECORDING [MOVES]
//
// RETRO names the command; without it the one that cargo built last for release is taken.

import { chromium } from "@playwright/test";
import path from "node:path";
import { retroPath, serveRecording } from "./tests/recordings.js";

const [recording, moves = "40"] = process.argv.slice(2);
if (!recording) throw new Error("usage: npm run speed -- RECORDING [MOVES]");

const server = await serveRecording(retroPath("release"), path.resolve(process.env.INIT_CWD ?? ".", recording));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});

try {
  const page = await browser.newPage({ viewport: { width: 1500, height: 950 } });
  await page.goto(server.page);
  await page.waitForFunction(() => window.retro?.here.now.time > 0);
  await page.evaluate(install);
  const opened = await page.evaluate(async () => {
    await window.speed.idle();
    const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
    return { paint, filled: window.speed.lastAnswer ?? performance.now() };
  });
  console.log(`first paint ${opened.paint.toFixed(0)} ms; all panes filled ${opened.filled.toFixed(0)} ms after the page was asked for`);
  const times = random(Number(moves));
  report("any moment (overview)", await page.evaluate((shares) => window.speed.each(shares, window.speed.overview), times));
  report("a step by a line", await page.evaluate((shares) => window.speed.each(shares, window.speed.step), times));
  report("the last write of a value", await page.evaluate((shares) => window.speed.each(shares, window.speed.follow), times));
} finally {
  await browser.close();
  server.stop();
}

/** Shares of the run, the same ones every time. */
function random(count) {
  let state = 12345;
  return Array.from({ length: count }, () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31);
}

/** In the page: does something, and waits until nothing is asked any more. */
function install() {
  const { api, here, overview, data } = window.retro;
  /** Answers of a move. */
  let asked = [];
  const sent = new Map();
  const send = api.send.bind(api);
  api.send = (message) => {
    if (message.id) sent.set(message.id, { method: message.method, start: performance.now() });
    send(message);
  };
  const receive = api.receive.bind(api);
  api.receive = (message) => {
    receive(message);
    const question = sent.get(message.id);
    if (!question) return;
    sent.delete(message.id);
    speed.lastAnswer = performance.now();
    asked.push([question.method, speed.lastAnswer - question.start]);
  };
  const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const isIdle = () => !api.pending.size && !document.querySelector("[aria-busy]");
  const measured = async (act) => {
    asked = [];
    const start = performance.now();
    act();
    do await sleep(0);
    while (!isIdle());
    await new Promise(requestAnimationFrame);
    let end = performance.now();
    // Some panes ask once more when everything has come to rest.
    const before = asked.length;
    await speed.idle();
    if (asked.length > before) end = speed.lastAnswer;
    return { time: end - start, asked };
  };
  const speed = {
    lastAnswer: undefined,
    async idle() {
      do await sleep(150);
      while (!isIdle());
    },
    async each(shares, act) {
      const all = [];
      for (const share of shares) {
        const found = await act(share);
        if (found) all.push(found);
      }
      return all;
    },
    overview(share) {
      const box = overview.slider.getBoundingClientRect();
      const at = { clientX: box.left + share * box.width, clientY: box.top + 5, pointerId: 1, bubbles: true };
      overview.slider.setPointerCapture = () => {};
      return measured(() => ["pointerdown", "pointerup"].forEach((type) => overview.slider.dispatchEvent(new PointerEvent(type, at))));
    },
    async step(share) {
      here.go({ time: Math.floor(share * here.range.end) });
      await speed.idle();
      const buttons = [...document.querySelectorAll(".steps button")];
      const button = buttons[[2, 5, 1, 6][Math.floor(share * 4)]];
      return measured(() => button.click());
    },
    async follow(share) {
      here.go({ time: Math.floor(share * here.range.end) });
      await speed.idle();
      const values = [...data.root.querySelectorAll(".row")].filter((row) => row.querySelector(".time button")).map((row) => row.querySelector(".value-button"));
      if (!values.length) return undefined;
      return measured(() => values[Math.floor(share * values.length)].click());
    },
  };
  window.speed = speed;
}

function report(what, found) {
  if (!found.length) return console.log(`${what}: nothing to click here`);
  const times = found.map(({ time }) => time).sort((one, other) => one - other);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))].toFixed(0);
  const requests = found.reduce((sum, { asked }) => sum + asked.length, 0) / found.length;
  console.log(`${what}: median ${at(0.5)} ms, nine of ten ${at(0.9)} ms, worst ${at(1)} ms (${found.length} clicks, ${requests.toFixed(1)} questions each)`);
  const methods = new Map();
  for (const [method, time] of found.flatMap(({ asked }) => asked)) methods.set(method, [...(methods.get(method) ?? []), time]);
  for (const [method, all] of [...methods].sort()) {
    all.sort((one, other) => one - other);
    console.log(`    ${method}: ${(all.length / found.length).toFixed(1)} a click, median ${all[all.length >> 1].toFixed(0)} ms, worst ${all[all.length - 1].toFixed(0)} ms`);
  }
}
