// @ts-check
// The executions table: all calls of a function with arguments and results, or all executions of a line or an instruction, with whatever else should
// be printed there. Nothing is executed again: every row is a moment of the recording.

import { h, button } from "../dom.js";
import { Cancelled } from "../api.js";
import { Pane } from "../pane.js";
import { VirtualList, cell, headerRow } from "../virtual-list.js";
import { baseName, count, placeText, quoted } from "../format.js";
import { ByNumber, ByQuery, CHUNK, SORTED, compareKeys, sortKey } from "../executions.js";

/** @typedef {{title: string, target: any, isCalls: boolean, query: string, body?: string}} Subject */

export class TablePane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "calls", "Calls");
    this.app = app;
    /** @type {Subject | undefined} */
    this.subject = undefined;
    /** @type {ByNumber | ByQuery | undefined} */
    this.rows = undefined;
    /** @type {string[]} */
    this.names = [];
    /** @type {string[]} */
    this.printed = [];
    /** @type {Map<string, string>} */
    this.cells = new Map();
    /** @type {{column: string, isUp: boolean} | undefined} */
    this.sorting = undefined;
    /** @type {number[] | undefined} */
    this.order = undefined;
    this.filter = field("filter", "Only where: an expression");
    this.print = field("print", "Print: expressions, with commas");
    this.filter.addEventListener("keydown", (event) => event.key === "Enter" && this.reload());
    this.print.addEventListener("keydown", (event) => event.key === "Enter" && this.rebuild());
    this.summary = h("span", { class: "quiet", role: "status" });
    this.tools.append(
      this.summary,
      this.filter,
      this.print,
      button("◀", "Previous execution", () => this.nearest(-1)),
      button("▶", "Next execution", () => this.nearest(1)),
      button("To timeline", "Show the calls around now in the timeline", () => this.toTimeline()),
    );
    this.place = h("div", { class: "fill" }, h("p", { class: "empty" }, "Search for a function to see all its calls, or click a line of the source to see all its executions."));
    this.body.append(this.place);
  }

  /** @param {string} name */
  async showFunction(name) {
    this.app.showTab("calls");
    const functions = await this.api.ask("symbols.functions", { ...this.app.here.at(), name });
    const entries = [...new Set(functions.items.filter((/** @type {any} */ item) => !item.inlined_in).map((/** @type {any} */ item) => item.entry))];
    const isCalls = entries.length > 0;
    const target = entries.length === 1 ? { address: entries[0] } : { function: name };
    const body = entries.length === 1 ? functions.items.find((/** @type {any} */ item) => item.entry === entries[0]).body : undefined;
    this.open({ title: `Calls of ${name}`, target, isCalls, body, query: `start forward func_enter ${quoted(name)} all` });
  }

  /**
   * @param {string} path
   * @param {number} line
   */
  showLine(path, line) {
    this.open({
      title: `Executions of ${baseName(path)}:${line}`, target: { file: path, line }, isCalls: false,
      query: `start forward line ${quoted(path)}:${line} all`,
    });
  }

  /**
   * @param {string} address
   * @param {string} text
   */
  showAddress(address, text) {
    this.open({ title: `Executions of ${text} at ${address}`, target: { address }, isCalls: false, query: `start forward instruction ${address} all` });
  }

  /**
   * All that a query finds.
   * @param {string} query
   */
  showQuery(query) {
    this.open({ title: query, target: undefined, isCalls: /\b(call|func_enter)\b/.test(query), query });
  }

  /** @param {Subject} subject */
  open(subject) {
    this.subject = subject;
    this.filter.value = "";
    this.app.showTab("calls");
    this.reload();
  }

  reload() {
    const { subject } = this;
    if (!subject) return;
    const { here } = this.app;
    this.sorting = undefined;
    this.order = undefined;
    this.heading.textContent = subject.title;
    this.summary.textContent = "";
    this.load(async (ask, signal) => {
      const condition = this.filter.value.trim();
      const query = condition ? `${subject.query} where ${condition}` : subject.query;
      const rows =
        condition || !subject.target
          ? new ByQuery(ask, here.at(), query, subject.isCalls)
          : new ByNumber(ask, here.now.process, here.range.start, subject.isCalls ? "locate.calls" : "locate.executions", subject.target);
      await rows.count(here.now.time);
      if (rows.total > 0) await rows.need(Math.floor(Math.max(0, Math.min(rows.before, rows.total - 1)) / CHUNK));
      if (signal.aborted) return;
      // What is asked later belongs to no loading of the whole.
      rows.ask = (method, params) => this.api.ask(method, params);
      this.rows = rows;
      this.names = argumentNames(rows.row(Math.min(rows.before, rows.total - 1)) ?? rows.row(0));
      this.rebuild();
    });
  }

  /** The columns have changed. */
  rebuild() {
    if (!this.rows || !this.subject) return;
    this.printed = this.print.value.split(/,(?![^([]*[)\]])/).map((text) => text.trim()).filter(Boolean);
    this.cells.clear();
    const { isCalls } = this.subject;
    const sort = (/** @type {string} */ column) => () => this.sort(column);
    const mark = (/** @type {string} */ column) => (this.sorting?.column === column ? (this.sorting.isUp ? " ▴" : " ▾") : "");
    /** @type {[string, string, (() => void)?][]} */
    const columns = [["number", "#" + mark("#"), sort("#")], ["time", "Time"], ["thread", "Thread" + mark("thread"), sort("thread")]];
    for (const name of this.names) columns.push(["grow", name + mark(`a:${name}`), sort(`a:${name}`)]);
    if (isCalls) columns.push(["grow", "Result" + mark("result"), sort("result")], ["number", "Took" + mark("took"), sort("took")]);
    else columns.push(["grow", "Place"]);
    for (const name of this.printed) columns.push(["grow", name]);
    this.list = new VirtualList({
      label: this.subject.title,
      class: "code table-list",
      rowHeight: 22,
      header: headerRow(columns),
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.goTo(index),
      onRange: (first, last) => this.want(first, last),
    });
    this.place.replaceChildren(this.list.element);
    this.list.setCount(this.length());
    this.update();
    if (this.current >= 0) this.list.show(this.current, "center");
  }

  length() {
    return this.order ? this.order.length : (this.rows?.total ?? 0);
  }

  /** @param {number} index of a row as it is shown */
  rowAt(index) {
    return this.rows?.row(this.order ? this.order[index] : index);
  }

  /** The moment has moved: the list goes along, wherever that is. */
  async moved() {
    const { rows } = this;
    const { time } = this.app.here.now;
    this.update();
    if (this.root.hidden || !(rows instanceof ByNumber) || this.order || this.running) return;
    this.finding?.abort();
    const finding = new AbortController();
    this.finding = finding;
    try {
      const params = { process: rows.process, time, ...rows.target };
      const { before } = await this.api.ask("executions.count", params, { signal: finding.signal });
      rows.before = before;
      await rows.need(Math.floor(Math.max(0, Math.min(before, rows.total - 1)) / CHUNK));
      if (finding.signal.aborted || this.rows !== rows || this.order) return;
      this.update();
      if (this.current >= 0) this.list?.show(this.current);
    } catch (error) {
      if (!(error instanceof Cancelled)) this.say(/** @type {Error} */ (error).message);
    }
  }

  /** Draws what is known. */
  update() {
    const { rows } = this;
    if (!rows || !this.list) return;
    const now = this.app.here.now.time;
    const atNow = this.order ? this.order.findIndex((number) => rows.row(number)?.time === now) : this.findNow(now);
    this.current = atNow;
    const more = rows instanceof ByQuery && rows.next !== undefined ? "+" : "";
    const known = rows instanceof ByQuery ? rows.list.length : rows.total;
    const sorted = this.order && known > this.order.length ? `, the first ${count(this.order.length)} are sorted` : "";
    const places = rows instanceof ByNumber && rows.places > 1 ? ` at ${rows.places} addresses` : "";
    this.summary.textContent = `${count(known)}${more} in all${places}${sorted}`;
    this.list.refresh();
  }

  /**
   * The last row that is not after now, among those that are known.
   * @param {number} now
   */
  findNow(now) {
    const { rows } = this;
    if (rows instanceof ByQuery) return rows.list.findLastIndex((row) => row.time <= now);
    const before = rows?.before ?? 0;
    return rows?.row(before)?.time === now ? before : before - 1;
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  want(first, last) {
    clearTimeout(this.wanting);
    this.wanting = setTimeout(async () => {
      const { rows, order } = this;
      if (!rows) return;
      const chunks = new Set();
      for (let index = first; index < last; index++) {
        const number = order ? order[index] : index;
        if (number !== undefined && !rows.row(number)) chunks.add(Math.floor(number / CHUNK));
      }
      if (!chunks.size) return;
      try {
        await Promise.all([...chunks].map((chunk) => rows.need(chunk)));
        if (this.rows !== rows || this.order !== order) return;
        if (rows instanceof ByQuery) this.list?.setCount(this.length());
        this.update();
      } catch (error) {
        this.say(/** @type {Error} */ (error).message);
      }
    }, 40);
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const entry = this.rowAt(index);
    const number = this.order ? this.order[index] : index;
    row.classList.toggle("current", index === this.current);
    row.append(cell("number", count(number + 1)));
    if (!entry) {
      row.append(cell("grow quiet", "…"));
      return;
    }
    if (entry.time > this.app.here.now.time) row.classList.add("future");
    row.append(cell("time", count(entry.time)), cell("thread", String(entry.thread ?? "")));
    for (const name of this.names) row.append(cell("grow", argument(entry, name)));
    if (this.subject?.isCalls) row.append(cell("grow", resultOf(entry)), cell("number", entry.end ? count(entry.end.time - entry.time) : "–"));
    else row.append(cell("grow", placeText(entry.pc)));
    for (const expression of this.printed) row.append(this.printedCell(entry, expression));
  }

  /**
   * @param {import("../executions.js").Row} entry
   * @param {string} expression
   */
  printedCell(entry, expression) {
    const key = `${entry.time} ${expression}`;
    const known = this.cells.get(key);
    const element = cell("grow printed", known ?? "…");
    if (known === undefined) {
      const params = { process: this.app.here.now.process, time: entry.time, thread: entry.thread, expression };
      const put = (/** @type {string} */ text) => {
        this.cells.set(key, text);
        element.textContent = text;
      };
      this.api.ask("evaluate", params).then((value) => put(value.text), (error) => put(`(${error.message})`));
    }
    return element;
  }

  /** @param {number} index */
  goTo(index) {
    const entry = this.rowAt(index);
    if (!entry) return;
    const title = this.subject?.isCalls ? `${entry.pc?.function ?? ""}(${(entry.arguments ?? []).map((it) => `${it.name}=${it.value}`).join(", ")})` : placeText(entry.pc);
    this.app.timeline.note({ kind: this.subject?.isCalls ? "call" : "line", time: entry.time, end: entry.end?.time, result: resultOf(entry), thread: entry.thread, title, place: this.subject?.title });
    const why = this.subject?.title;
    const body = this.subject?.body;
    if (!body || body === entry.pc?.address) return this.app.here.go({ time: entry.time, thread: entry.thread, why });
    // Parameters are not yet where the debug information says before the body of a function begins.
    this.load(async (ask) => {
      const { process } = this.app.here.now;
      const until = entry.end ? { until: entry.end.time } : {};
      const page = await ask("locate.executions", { process, time: entry.time, address: body, thread: entry.thread, limit: 1, ...until });
      const time = page.items[0]?.time ?? entry.time;
      setTimeout(() => this.app.here.go({ time, thread: entry.thread, why }));
    });
  }

  /** @param {1 | -1} step */
  nearest(step) {
    const { subject } = this;
    if (!subject?.target) return;
    const direction = step > 0 ? "forward" : "backward";
    const { here } = this.app;
    this.load(async (ask) => {
      const from = step > 0 ? Math.min(here.now.time + 1, here.range.end) : here.now.time;
      const page = await ask("locate.executions", { process: here.now.process, time: from, ...subject.target, direction, limit: 1 });
      if (!page.items.length) throw new Error(step > 0 ? "Never again." : "Never before.");
      const [{ time, thread }] = page.items;
      setTimeout(() => here.go({ time, thread, why: subject.title }));
    });
  }

  toTimeline() {
    const name = this.subject?.title.startsWith("Calls of ") ? this.subject.title.slice(9) : "";
    if (name) this.app.timeline.addCalls(name);
  }

  /** @param {string} column */
  sort(column) {
    const { rows } = this;
    if (!rows) return;
    // As they come, rows are in the order of their numbers.
    const { column: old, isUp: wasUp } = this.sorting ?? { column: "#", isUp: true };
    const isUp = old === column ? !wasUp : true;
    if (column === "#" && isUp) {
      this.sorting = undefined;
      this.order = undefined;
      this.rebuild();
      return;
    }
    this.load(async (_, signal) => {
      rows.ask = (method, params) => this.api.ask(method, params, { signal });
      const wanted = rows instanceof ByQuery ? SORTED : Math.min(SORTED, rows.total);
      try {
        await rows.needAll(wanted, (done) => this.progress(rows instanceof ByQuery ? `${count(done)} rows` : `${count(done)} of ${count(wanted)} rows`));
      } finally {
        rows.ask = (method, params) => this.api.ask(method, params);
      }
      const numbers = [];
      for (let number = 0; number < wanted; number++) if (rows.row(number)) numbers.push(number);
      const key = (/** @type {number} */ number) => keyOf(/** @type {any} */ (rows.row(number)), number, column);
      const keys = new Map(numbers.map((number) => [number, sortKey(key(number))]));
      numbers.sort((one, other) => compareKeys(/** @type {any} */ (keys.get(one)), /** @type {any} */ (keys.get(other))) || one - other);
      if (!isUp) numbers.reverse();
      this.sorting = { column, isUp };
      this.order = numbers;
      this.rebuild();
    });
  }
}

/**
 * @param {string} id
 * @param {string} label
 */
function field(id, label) {
  return /** @type {HTMLInputElement} */ (h("input", { id: `table-${id}`, type: "text", placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false" }));
}

/** @param {any} row */
function argumentNames(row) {
  return (row?.arguments ?? []).map((/** @type {any} */ argument) => argument.name);
}

/**
 * @param {any} row
 * @param {string} name
 */
function argument(row, name) {
  return row.arguments?.find((/** @type {any} */ argument) => argument.name === name)?.value ?? "";
}

/** @param {any} row */
function resultOf(row) {
  return row.end?.result?.value ?? (row.end ? "" : "(never returns)");
}

/**
 * @param {any} row
 * @param {number} number
 * @param {string} column
 */
function keyOf(row, number, column) {
  if (column === "thread") return row.thread;
  if (column === "result") return resultOf(row);
  if (column === "took") return row.end ? row.end.time - row.time : undefined;
  if (column.startsWith("a:")) return argument(row, column.slice(2));
  return number;
}
