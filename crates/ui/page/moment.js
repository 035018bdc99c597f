// @ts-check
// The moment that every pane shows: process, time, thread, frame. It is in the address of the page, so that a link leads to the same view and the
// browser's own back and forward work.

/**
 * @typedef {{process: number, time: number, thread?: number, frame: number}} Moment
 * @typedef {{time?: number, process?: number, thread?: number | null, frame?: number, replace?: boolean, why?: string}} Move
 */

export class Here extends EventTarget {
  constructor() {
    super();
    /** @type {Moment} */
    this.now = { process: 0, time: 0, frame: 0 };
    /** @type {Moment | undefined} */
    this.before = undefined;
    /** The first and the last time of the process. */
    this.range = { start: 0, end: 0 };
    /** @type {Map<number, {start: number, end: number}>} */
    this.processes = new Map();
    window.addEventListener("popstate", () => {
      const moment = readHash();
      if (moment) this.set(moment, "");
    });
    window.addEventListener("hashchange", () => {
      const moment = readHash();
      if (moment && !isSame(moment, this.now)) this.set(moment, "");
    });
  }

  /**
   * Goes somewhere. What is not said stays as it is, but another time is looked at in its innermost frame.
   * @param {Move} move
   */
  go(move) {
    const process = move.process ?? this.now.process;
    const time = move.time ?? this.now.time;
    const isElsewhere = process !== this.now.process || time !== this.now.time;
    const given = move.thread === null ? undefined : move.thread;
    const thread = "thread" in move ? given : isElsewhere ? undefined : this.now.thread;
    const frame = move.frame ?? (isElsewhere || thread !== this.now.thread ? 0 : this.now.frame);
    const next = this.clamp({ process, time, thread, frame });
    if (isSame(next, this.now)) return;
    const url = hashOf(next);
    if (move.replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.set(next, move.why ?? "");
  }

  /**
   * @param {Moment} moment
   * @returns {Moment}
   */
  clamp(moment) {
    const range = this.processes.get(moment.process);
    if (!range) return moment;
    return { ...moment, time: Math.max(range.start, Math.min(range.end, moment.time)) };
  }

  /**
   * @param {Moment} moment
   * @param {string} why
   */
  set(moment, why) {
    const before = this.now;
    const next = this.clamp(moment);
    this.now = next;
    this.range = this.processes.get(next.process) ?? this.range;
    const timeMoved = before.time !== next.time || before.process !== next.process;
    if (timeMoved) this.before = before;
    this.dispatchEvent(new CustomEvent("move", { detail: { before, now: next, timeMoved, why } }));
  }

  /** What all questions about this moment have in common. */
  at() {
    return { process: this.now.process, time: this.now.time };
  }

  /** The same, with thread and frame. */
  inFrame() {
    const { process, time, thread, frame } = this.now;
    return thread === undefined ? { process, time, frame } : { process, time, thread, frame };
  }
}

/**
 * @param {Moment} one
 * @param {Moment} other
 */
function isSame(one, other) {
  return (
    one.process === other.process && one.time === other.time && one.thread === other.thread && one.frame === other.frame
  );
}

/** @param {Moment} moment */
export function hashOf(moment) {
  const hash = new URLSearchParams({ process: String(moment.process), time: String(moment.time) });
  if (moment.thread !== undefined) hash.set("thread", String(moment.thread));
  if (moment.frame) hash.set("frame", String(moment.frame));
  return "#" + hash;
}

/** @returns {Moment | undefined} */
export function readHash() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const number = (/** @type {string} */ name) => {
    const text = hash.get(name);
    return text !== null && /^\d{1,16}$/.test(text) ? Number(text) : undefined;
  };
  const time = number("time");
  if (time === undefined) return undefined;
  return { process: number("process") ?? 0, time, thread: number("thread"), frame: number("frame") ?? 0 };
}
