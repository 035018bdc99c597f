// @ts-check
// What the program wrote to its terminal, line by line. A click on a line goes to the moment at which it was written.

import { h } from "../dom.js";
import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { count } from "../format.js";

const PAGE = 500;

export class OutputPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "output", "Output");
    this.app = app;
    this.process = -1;
    /** @type {{time: number, thread: number, text: string, descriptor: number}[]} */
    this.lines = [];
    this.list = new VirtualList({
      label: "Output of the program",
      class: "code output-list",
      rowHeight: 19,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.goTo(index),
      onRange: (_, last) => last >= this.lines.length && this.more(),
    });
    this.hint = h("p", { class: "empty", hidden: true }, "The program wrote nothing to its terminal.");
    this.body.append(this.hint, this.list.element);
  }

  /** The moment has moved. */
  update() {
    const { now } = this.app.here;
    if (this.process !== now.process) {
      this.process = now.process;
      this.lines = [];
      /** @type {string | undefined} */
      this.next = "";
      this.isOpen = false;
    }
    if (this.root.hidden) return;
    if (this.next === "") this.more();
    else this.show();
  }

  more() {
    if (this.next === undefined || this.running) return;
    const { now, range } = this.app.here;
    this.load(async (ask) => {
      const cursor = this.next ? { cursor: this.next } : {};
      const page = await ask("locate.output", { process: now.process, time: range.start, limit: PAGE, ...cursor });
      if (this.process !== now.process) return;
      this.next = page.next;
      for (const item of page.items) this.add(item);
      this.hint.hidden = this.lines.length > 0;
      this.show();
    });
  }

  /** @param {any} item */
  add(item) {
    const parts = item.text.split("\n");
    parts.forEach((/** @type {string} */ part, /** @type {number} */ index) => {
      const last = this.lines[this.lines.length - 1];
      if (index === 0 && this.isOpen && last && last.descriptor === item.descriptor) {
        last.text += part;
      } else if (index < parts.length - 1 || part !== "") {
        this.lines.push({ time: item.time, thread: item.thread, text: part, descriptor: item.descriptor });
      }
    });
    this.isOpen = parts[parts.length - 1] !== "";
  }

  show() {
    this.list.setCount(this.lines.length);
    const now = this.app.here.now.time;
    const last = this.lines.findLastIndex((line) => line.time < now);
    this.list.setActive(last);
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const line = this.lines[index];
    row.classList.toggle("future", line.time >= this.app.here.now.time);
    row.classList.toggle("stderr", line.descriptor === 2);
    row.append(cell("time", count(line.time)), cell("text", line.text.replace(/\t/g, "    ") || " "));
  }

  /** @param {number} index */
  goTo(index) {
    const line = this.lines[index];
    this.app.timeline.note({ kind: "output", time: line.time, thread: line.thread, title: line.text });
    this.app.here.go({ time: line.time, thread: line.thread, why: `output: ${line.text}` });
  }
}
