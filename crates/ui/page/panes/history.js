// @ts-check
// The history of a value: all writes to its memory, before and after now, as a list, and as a plot if they are numbers.

import { h, svg, button } from "../dom.js";
import { Pane } from "../pane.js";
import { VirtualList, cell, headerRow } from "../virtual-list.js";
import { count, decodeNumber, placeText } from "../format.js";

const PAGE = 250;

/** @typedef {{expression: string, address: string, size: number, type: string}} Subject */

export class HistoryPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "history", "History");
    this.app = app;
    /** @type {Subject | undefined} */
    this.subject = undefined;
    /** @type {any[]} */
    this.writes = [];
    this.earlier = button("Earlier", "Load earlier writes", () => this.more("backward"), { hidden: true });
    this.later = button("Later", "Load later writes", () => this.more("forward"), { hidden: true });
    this.tools.append(this.earlier, this.later);
    this.plot = h("div", { class: "plot", hidden: true });
    this.list = new VirtualList({
      label: "Writes",
      class: "code history-list",
      rowHeight: 21,
      header: headerRow([["time", "Time"], ["value grow", "Value after the write"], ["place", "Written by"]]),
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.goTo(this.writes[index]),
    });
    this.hint = h("p", { class: "empty" }, "Choose a value in Data (hist, or the key h) to see all that was ever written to it.");
    this.list.element.hidden = true;
    this.body.append(this.hint, this.plot, this.list.element);
  }

  /** @param {Subject} subject */
  open(subject) {
    this.subject = subject;
    this.app.showTab("history");
    this.heading.textContent = `History of ${subject.expression}`;
    this.load(async (ask) => {
      const params = { ...this.app.here.at(), address: subject.address, length: subject.size, limit: PAGE };
      const [past, future] = await Promise.all([
        ask("locate.writes", { ...params, direction: "backward" }),
        ask("locate.writes", { ...params, direction: "forward" }),
      ]);
      this.params = params;
      this.cursors = { backward: past.next, forward: future.next };
      this.writes = [...past.items.reverse(), ...future.items];
      this.show();
    });
  }

  /** @param {"backward" | "forward"} direction */
  more(direction) {
    this.load(async (ask) => {
      const cursors = /** @type {any} */ (this.cursors);
      const page = await ask("locate.writes", { ...this.params, limit: 4 * PAGE, direction, cursor: cursors[direction] });
      cursors[direction] = page.next;
      this.writes = direction === "backward" ? [...page.items.reverse(), ...this.writes] : [...this.writes, ...page.items];
      this.show();
    });
  }

  show() {
    this.hint.hidden = true;
    this.list.element.hidden = false;
    const cursors = /** @type {any} */ (this.cursors);
    this.earlier.hidden = !cursors.backward;
    this.later.hidden = !cursors.forward;
    this.list.setCount(this.writes.length);
    this.update();
    this.draw();
  }

  /** The moment has moved. */
  update() {
    if (!this.subject) return;
    const now = this.app.here.now.time;
    const last = this.writes.findLastIndex((write) => write.time < now);
    this.current = last;
    this.list.refresh();
    if (last >= 0) this.list.setActive(last);
    this.draw();
  }

  /** @param {any} write */
  valueOf(write) {
    const { address, size, type } = /** @type {Subject} */ (this.subject);
    if (write.address !== address || write.length < size) return undefined;
    return decodeNumber(write.value.slice(0, 2 * size), type);
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const write = this.writes[index];
    const value = this.valueOf(write);
    row.classList.toggle("current", index === this.current);
    row.classList.toggle("future", write.time >= this.app.here.now.time);
    const isPointer = /[*&]$/.test(this.subject?.type ?? "");
    const text = value === undefined ? `${write.length} bytes: ${write.value}` : isPointer ? "0x" + value.toString(16) : String(value);
    row.append(
      cell("time", count(write.time)),
      cell("value grow", text),
      cell("place", write.by === "kernel" ? "the kernel, in " : "", placeText(write.pc)),
    );
  }

  /** @param {any} write */
  goTo(write) {
    const subject = /** @type {Subject} */ (this.subject);
    const value = this.valueOf(write);
    const title = `${subject.expression} = ${value === undefined ? write.value : value}`;
    this.app.timeline.note({ kind: "write", time: write.time, thread: write.thread, title, place: placeText(write.pc) });
    this.app.here.go({ time: write.time, thread: write.thread, why: title });
  }

  draw() {
    const points = this.writes
      .map((write) => [write.time, Number(this.valueOf(write) ?? NaN)])
      .filter(([, value]) => Number.isFinite(value));
    this.plot.hidden = points.length < 2 || /[*&]$/.test(this.subject?.type ?? "");
    if (this.plot.hidden) return;
    const [width, height] = [600, 60];
    const times = points.map(([time]) => time);
    const values = points.map(([, value]) => value);
    const [first, last] = [times[0], times[times.length - 1]];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const x = (/** @type {number} */ time) => ((time - first) / Math.max(1, last - first)) * width;
    const y = (/** @type {number} */ value) => height - 4 - ((value - low) / Math.max(1e-300, high - low || 1)) * (height - 8);
    // A value stays until it is written again.
    const steps = points.flatMap(([time, value], index) => (index ? [[time, points[index - 1][1]], [time, value]] : [[time, value]]));
    const now = this.app.here.now.time;
    const label = `${this.subject?.expression}: ${points.length} values from ${low} to ${high}`;
    const image = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("title", {}, label),
      svg("polyline", { class: "curve", points: steps.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }),
      now >= first && now <= last && svg("line", { class: "now", x1: x(now), x2: x(now), y1: 0, y2: height }),
    );
    image.addEventListener("click", (event) => {
      const box = image.getBoundingClientRect();
      const time = first + ((/** @type {MouseEvent} */ (event).clientX - box.left) / box.width) * (last - first);
      const index = Math.max(0, this.writes.findLastIndex((write) => write.time <= time));
      this.goTo(this.writes[index]);
    });
    this.plot.replaceChildren(h("span", { class: "scale" }, String(high)), image, h("span", { class: "scale" }, String(low)));
  }
}
