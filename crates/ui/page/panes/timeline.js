// @ts-check
// The timeline: what the user asked for and where the user has been, time from top to bottom, with the current moment among it. Calls are two
// rows, Call and Exit, joined by a bar. System calls, signals, output and threads can be shown as groups around the current moment.

import { h, button } from "../dom.js";
import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { argumentText, count, placeText } from "../format.js";

/** Things that a group shows before and after now. */
const AROUND = 60;

/** @typedef {{kind: string, time: number, end?: number, result?: string, thread?: number, title: string, place?: string, group?: string}} TimelineEvent */

/** @type {Record<string, {label: string, method: string, event: (item: any) => TimelineEvent}>} */
const GROUPS = {
  syscalls: {
    label: "System calls", method: "locate.syscalls",
    event: (item) => {
      const result = !item.end ? "" : item.end.error ? ` = −${item.end.error}` : ` = ${item.end.result}`;
      return { kind: "syscall", time: item.time, thread: item.thread, title: `${item.name ?? item.number}(${item.arguments.slice(0, 3).join(", ")})${result}` };
    },
  },
  signals: {
    label: "Signals", method: "locate.signals",
    event: (item) => ({
      kind: "signal", time: item.time, thread: item.thread,
      title: `${item.name ?? item.number}${item.address ? ` at ${item.address}` : ""}`,
      place: item.handler ? `handled by ${placeText(item.handler)}` : "ends the process",
    }),
  },
  output: {
    label: "Output", method: "locate.output",
    event: (item) => ({ kind: "output", time: item.time, thread: item.thread, title: item.text.trimEnd().slice(0, 200) }),
  },
  threads: {
    label: "Threads", method: "locate.threads",
    event: (item) => ({ kind: "thread", time: item.time, thread: item.thread, title: `thread ${item.thread}: ${item.event}` }),
  },
};

const NAMES = /** @type {Record<string, string>} */ ({
  call: "Call", exit: "Exit", write: "Write", line: "Line", syscall: "Syscall", signal: "Signal", output: "Output", thread: "Thread", note: "Note", visit: "Moment",
});

export class TimelinePane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "timeline", "Timeline");
    this.app = app;
    /** @type {TimelineEvent[]} */
    this.events = [];
    /** @type {Set<string>} */
    this.groups = new Set();
    /** @type {any[]} */
    this.rows = [];
    const toggles = Object.entries(GROUPS).map(([id, group]) => {
      const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: `show-${id}` }));
      box.addEventListener("change", () => this.toggle(id, box.checked));
      return h("label", { for: `show-${id}`, class: "check" }, box, group.label);
    });
    this.tools.append(button("Clear", "Remove all rows from the timeline", () => this.clear()));
    this.list = new VirtualList({
      label: "Timeline",
      class: "timeline-list",
      rowHeight: 36,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.activate(index),
      onKey: (index, event) => event.key === "Delete" && this.remove(index),
    });
    this.body.append(h("div", { class: "checks" }, toggles), this.list.element);
  }

  /**
   * Adds something that the user came across.
   * @param {TimelineEvent} event
   */
  note(event) {
    const same = this.events.find((other) => other.time === event.time && other.kind === event.kind && other.title === event.title);
    if (!same) this.events.push(event);
    this.show();
  }

  /**
   * Adds calls of a function around now, each with its end.
   * @param {string} name
   */
  addCalls(name) {
    this.load(async (ask) => {
      const params = { ...this.app.here.at(), function: name, results: true, limit: AROUND };
      const pages = await Promise.all(["backward", "forward"].map((direction) => ask("locate.calls", { ...params, direction })));
      for (const call of pages.flatMap((page) => page.items)) {
        const title = `${call.pc.function}(${argumentText(call.arguments)})`;
        const result = call.end?.result?.value;
        const event = { kind: "call", time: call.time, end: call.end?.time, result, thread: call.thread, title, place: "" };
        if (!this.events.some((other) => other.kind === "call" && other.time === call.time)) this.events.push(event);
      }
      this.show();
    });
  }

  /**
   * @param {string} id
   * @param {boolean} isOn
   */
  toggle(id, isOn) {
    if (isOn) this.groups.add(id);
    else this.groups.delete(id);
    this.events = this.events.filter((event) => event.group !== id);
    if (isOn) this.update();
    else this.show();
  }

  clear() {
    this.events = this.events.filter((event) => event.group);
    this.show();
  }

  /** @param {number} index */
  remove(index) {
    const event = this.rows[index]?.event;
    if (!event) return false;
    this.events = this.events.filter((other) => other !== event);
    this.show();
    return true;
  }

  /** The moment has moved: groups show what is around it. */
  update() {
    this.show();
    if (!this.groups.size) return;
    const at = this.app.here.at();
    this.load(async (ask) => {
      const pages = await Promise.all(
        [...this.groups].flatMap((id) =>
          ["backward", "forward"].map(async (direction) => {
            const page = await ask(GROUPS[id].method, { ...at, direction, limit: AROUND });
            return page.items.map((/** @type {any} */ item) => ({ ...GROUPS[id].event(item), group: id }));
          }),
        ),
      );
      this.events = [...this.events.filter((event) => !event.group), ...pages.flat()];
      this.show();
    });
  }

  show() {
    const now = this.app.here.now.time;
    /** @type {any[]} */
    const rows = [];
    for (const event of this.events) {
      rows.push({ time: event.time, kind: event.kind, event });
      if (event.end !== undefined) rows.push({ time: event.end, kind: "exit", event });
    }
    rows.push({ time: now, kind: "now" });
    const rank = (/** @type {any} */ row) => (row.kind === "now" ? 0 : 1);
    rows.sort((one, other) => one.time - other.time || rank(one) - rank(other));
    assignLanes(rows);
    this.rows = rows;
    this.list.setCount(rows.length);
    this.list.setActive(rows.findIndex((row) => row.kind === "now"), "center");
    this.app.overview?.draw();
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const entry = this.rows[index];
    row.append(cell("lanes", lanes(entry)));
    if (entry.kind === "now") {
      row.classList.add("now");
      row.setAttribute("aria-current", "true");
      row.append(cell("grow", h("strong", {}, "Now "), count(entry.time)));
      return;
    }
    const { event } = entry;
    row.classList.add(entry.kind);
    if (entry.time > this.app.here.now.time) row.classList.add("future");
    const title = entry.kind === "exit" ? `${event.title.split("(")[0]} returns ${event.result ?? ""}` : event.title;
    row.append(
      cell("kind", NAMES[entry.kind] ?? entry.kind),
      cell(
        "grow two-lines",
        h("span", { class: "line title" }, title),
        h("span", { class: "line quiet" }, count(entry.time), event.place ? ` · ${event.place}` : ""),
      ),
    );
    row.title = `${title}\n${event.place ?? ""}\ntime ${count(entry.time)}${event.thread ? `, thread ${event.thread}` : ""}`;
  }

  /** @param {number} index */
  activate(index) {
    const entry = this.rows[index];
    if (entry && entry.kind !== "now") this.app.here.go({ time: entry.time, thread: entry.event.thread, why: entry.event.title });
  }
}

/** Bars that are shown beside each other. */
const LANES = 6;

/**
 * Gives each interval a lane of its own, and says for each row which lanes pass it.
 * @param {any[]} rows
 */
function assignLanes(rows) {
  /** @type {(TimelineEvent | undefined)[]} */
  const open = [];
  for (const row of rows) {
    const { event } = row;
    if (event && event.end !== undefined && row.kind !== "exit") {
      let lane = open.findIndex((taken) => taken === undefined);
      if (lane < 0) lane = open.length;
      if (lane < LANES) open[lane] = event;
    }
    row.lanes = open.slice(0, LANES).map((taken) => (taken === undefined ? "" : taken === event ? row.kind : "through"));
    if (row.kind === "exit") {
      const lane = open.indexOf(event);
      if (lane >= 0) open[lane] = undefined;
    }
  }
}

/** @param {any} entry */
function lanes(entry) {
  const element = h("span", { class: "lane-box" });
  for (const kind of entry.lanes) element.append(h("span", { class: `lane ${kind}` }));
  return element;
}
