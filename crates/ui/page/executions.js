// @ts-check
// Where the rows of the executions table come from: all calls of a function, all executions of a line or an instruction, or what a query finds.
// Rows are asked for in pieces, wherever in the list they are; the index knows where the n-th is.

import { parseTime } from "./format.js";

/** Rows that are asked for at once. */
export const CHUNK = 50;

/** Rows that are sorted: all of them are needed for that. */
export const SORTED = 50_000;

/** Rows that are asked for at once where all are needed. */
const MANY = 500;

/** @typedef {{time: number, thread: number, pc?: any, arguments?: any[], end?: any, event?: any}} Row */

/** All executions of something, by number. */
export class ByNumber {
  /**
   * @param {import("./pane.js").Ask} ask
   * @param {number} process
   * @param {number} start the first time of the process
   * @param {"locate.calls" | "locate.executions"} method
   * @param {object} target
   */
  constructor(ask, process, start, method, target) {
    this.ask = ask;
    this.process = process;
    this.start = start;
    this.method = method;
    this.target = target;
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Map<number, Promise<void>>} */
    this.asked = new Map();
    this.total = 0;
    this.before = 0;
    /** Addresses that are meant: the code of a line may be in several pieces. */
    this.places = 1;
  }

  /**
   * How many there are, and how many of them before a moment.
   * @param {number} time
   */
  async count(time) {
    const { before, total, addresses } = await this.ask("executions.count", { process: this.process, time, ...this.target });
    this.before = before;
    this.total = total;
    this.places = addresses.length;
  }

  /** @param {number} index */
  row(index) {
    return this.rows.get(index);
  }

  /**
   * @param {number} chunk
   * @returns {Promise<void>}
   */
  need(chunk) {
    const known = this.asked.get(chunk);
    if (known) return known;
    const asking = this.fetch(chunk).catch((error) => {
      this.asked.delete(chunk);
      throw error;
    });
    this.asked.set(chunk, asking);
    return asking;
  }

  /**
   * Asks for all rows up to a number.
   * @param {number} wanted
   * @param {(done: number) => void} onProgress
   */
  async needAll(wanted, onProgress) {
    let index = 0;
    let cursor = {};
    while (index < wanted) {
      const page = await this.ask(this.method, { process: this.process, time: this.start, ...this.target, ...this.details(), limit: MANY, ...cursor });
      for (const row of page.items) this.rows.set(index++, row);
      onProgress(index);
      if (!page.next) return;
      cursor = { cursor: page.next };
    }
  }

  details() {
    return this.method === "locate.calls" ? { results: true } : {};
  }

  /** @param {number} chunk */
  async fetch(chunk) {
    const first = chunk * CHUNK;
    const process = this.process;
    const neighbour = this.rows.get(first - 1);
    let time = this.start;
    if (neighbour) time = neighbour.time + 1;
    else if (first > 0) {
      const found = await this.ask("locate.executions", { process, time: this.start, ...this.target, nth: first + 1 });
      if (!found.items.length) return;
      time = found.items[0].time;
    }
    const page = await this.ask(this.method, { process, time, ...this.target, ...this.details(), limit: CHUNK });
    page.items.forEach((/** @type {Row} */ row, /** @type {number} */ index) => this.rows.set(first + index, row));
  }
}

/** What a query finds: nobody knows how many there are. */
export class ByQuery {
  /**
   * @param {import("./pane.js").Ask} ask
   * @param {object} at
   * @param {string} query
   * @param {boolean} wantsCalls whether arguments are wanted
   */
  constructor(ask, at, query, wantsCalls) {
    this.ask = ask;
    this.params = { ...at, query, limit: CHUNK };
    this.wantsCalls = wantsCalls;
    /** @type {Row[]} */
    this.list = [];
    /** @type {string | undefined} */
    this.next = "";
    this.before = 0;
    /** @type {Promise<void> | undefined} */
    this.asking = undefined;
  }

  get total() {
    return this.list.length + (this.next === undefined ? 0 : 1);
  }

  /** @param {number} time */
  async count(time) {
    await this.need(0);
    this.before = this.list.filter((row) => row.time < time).length;
  }

  /** @param {number} index */
  row(index) {
    return this.list[index];
  }

  /**
   * @param {number} wanted
   * @param {(done: number) => void} onProgress
   */
  async needAll(wanted, onProgress) {
    while (this.next !== undefined && this.list.length < wanted) {
      await this.need(Math.floor(this.list.length / CHUNK));
      onProgress(this.list.length);
    }
  }

  /** @param {number} chunk */
  async need(chunk) {
    while (this.next !== undefined && this.list.length <= chunk * CHUNK) {
      this.asking ??= this.fetch().finally(() => (this.asking = undefined));
      await this.asking;
    }
  }

  async fetch() {
    const cursor = this.next ? { cursor: this.next } : {};
    const page = await this.ask("goto", { ...this.params, ...cursor });
    this.next = page.next;
    const { process } = /** @type {any} */ (this.params);
    const rows = !this.wantsCalls
      ? page.items
      : await Promise.all(
          page.items.map(async (/** @type {any} */ item) => {
            const target = { address: item.pc?.address, time: item.time, until: item.time + 1, process, results: true, limit: 1 };
            const call = item.pc ? await this.ask("locate.calls", target) : { items: [] };
            return call.items[0] ?? item;
          }),
        );
    this.list.push(...rows);
  }
}

/**
 * What a row is sorted by: numbers as numbers, all else as text.
 * @param {string | number | undefined} value
 */
export function sortKey(value) {
  if (value === undefined) return -Infinity;
  const number = Number(value);
  return typeof value === "number" || (value !== "" && Number.isFinite(number)) ? number : (parseTime(String(value), { start: 0, end: 0 }) ?? String(value));
}

/**
 * @param {string | number} one
 * @param {string | number} other
 */
export function compareKeys(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one === "number") return -1;
  if (typeof other === "number") return 1;
  return one < other ? -1 : one > other ? 1 : 0;
}
