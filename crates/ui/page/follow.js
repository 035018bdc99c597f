// @ts-check
// From a value to what made it: the last write to its memory, or, if it is in a register, the instruction that put it there.

import { count, placeText, quoted } from "./format.js";

/** Instructions that are gone back for a value in a register: each is looked at. */
const REACH = 500_000;

/** Values that can be compared with what they were: numbers, addresses, constants by name. */
const LITERAL = /^(0x[0-9a-f]+|-?\d+(\.\d+(e[-+]?\d+)?)?|[A-Za-z_]\w*(?=$))/;

/**
 * @typedef {{expression: string, text: string, address?: string, size?: number}} Followed
 */

/**
 * Goes to where a value comes from, and notes the way.
 * @param {import("./main.js").App} app
 * @param {Followed} value
 */
export function follow(app, value) {
  return app.data.load(async (ask) => {
    const { here } = app;
    const found = value.address
      ? await lastWrite(ask, here.at(), value)
      : await lastChange(app, ask, value);
    const title = `${value.expression} = ${value.text}`;
    const from = here.now;
    app.notebook.add({ process: from.process, time: from.time, thread: from.thread, title: `Looked at ${title}`, place: app.placeNow(), text: "" });
    app.notebook.add({ process: from.process, time: found.time, thread: found.thread, title: `Last write of ${title}`, place: placeText(found.pc), text: "" });
    app.timeline.note({ kind: "write", time: found.time, thread: found.thread, title, place: placeText(found.pc) });
    queueMicrotask(() => here.go({ time: found.time, thread: found.thread, why: `last write of ${title}` }));
  });
}

/**
 * @param {import("./pane.js").Ask} ask
 * @param {object} at
 * @param {Followed} value
 */
async function lastWrite(ask, at, value) {
  const page = await ask("locate.writes", { ...at, direction: "backward", address: value.address, length: Math.max(1, value.size ?? 1), limit: 1 });
  if (!page.items.length) throw new Error(`${value.expression} was never written: it is as the program was loaded.`);
  return page.items[0];
}

/**
 * The last instruction that changed a value in a register, as long as the function runs; the call if it had the value already then.
 * @param {import("./main.js").App} app
 * @param {import("./pane.js").Ask} ask
 * @param {Followed} value
 */
async function lastChange(app, ask, { expression, text }) {
  const { here, frames } = app;
  const literal = LITERAL.exec(text)?.[0];
  if (literal === undefined) throw new Error(`${expression} is in registers, and no number: its last write cannot be told.`);
  const { frame: index, process } = here.now;
  const { thread } = app.stack;
  // Where code is inlined, several frames are of one call.
  const called = async (/** @type {number} */ from, /** @type {1 | -1} */ step) => {
    let real = from;
    while (frames[real]?.is_inlined) real += step;
    if (!frames[real]) return undefined;
    const stack = await ask("stack", { ...here.at(), thread, arguments: "at_call", first: real, limit: 1 });
    return stack.frames[0]?.called;
  };
  // Registers of a function that waits are those that it had when it called.
  const isCaller = index > 0 && !frames.slice(0, index).every((frame) => frame.is_inlined);
  const from = isCaller ? await called(index - 1, -1) : here.now.time;
  const entry = (await called(index, 1)) ?? here.range.start;
  const earliest = Math.max(entry, from - REACH);
  const conditions = [`time >= ${earliest}`, `(${expression}) != ${literal}`, `depth = ${frames.length - index}`, `thread = ${thread}`];
  const query = `now backward instruction ${quoted(frames[index].function ?? frames[index].pc)} where ${conditions.join(" and ")}`;
  const page = await ask("goto", { process, time: from, thread, query });
  if (page.items.length) return page.items[0];
  if (earliest > entry) throw new Error(`${expression} is in a register, and did not change in the ${count(REACH)} instructions before.`);
  const before = await ask("step", { process, time: entry, thread, direction: "backward", calls: "into", unit: "instruction" });
  if (!before || before.time === entry) throw new Error(`${expression} is in a register, and never changed.`);
  return before;
}
