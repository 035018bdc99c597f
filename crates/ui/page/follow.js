// @ts-check
// From a value to what made it: the last write to its memory, or, if it is in a register, the last line at which it was another.

import { placeText } from "./format.js";
import { Cancelled } from "./api.js";

/** Lines that are gone back for a value in a register. */
const LINES = 300;

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
      : await lastChange(ask, here.inFrame(), value.expression, value.text);
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
 * Goes back line by line in the same function until the expression had another value.
 * @param {import("./pane.js").Ask} ask
 * @param {any} from
 * @param {string} expression
 * @param {string} text
 */
async function lastChange(ask, from, expression, text) {
  let at = from;
  for (let step = 0; step < LINES; step++) {
    // Within a frame further out, the steps are those of the frame: first out to the call.
    const params = at.frame > 0 ? { direction: "backward", calls: "out" } : { direction: "backward", calls: "over", unit: "line" };
    const { frame, ...moment } = at;
    const found = await ask("step", { ...moment, ...params });
    if (!found || found.time === at.time) break;
    at = { ...at, time: found.time, frame: Math.max(0, frame - 1), thread: found.thread };
    if (frame > 0) continue;
    try {
      const value = await ask("evaluate", { ...at, expression });
      if (value.text !== text) return found;
    } catch (error) {
      if (error instanceof Cancelled) throw error;
      return found;
    }
  }
  throw new Error(`${expression} is in a register, and did not change in the ${LINES} lines before.`);
}
