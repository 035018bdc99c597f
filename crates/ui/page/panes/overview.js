// @ts-check
// The overview: the whole run, a strip for each thread with how much it did, and where the events of the timeline are. A click goes there, dragging
// zooms in, the wheel zooms around the pointer, arrows move.

import { h, button } from "../dom.js";
import { Pane } from "../pane.js";
import { count } from "../format.js";

const PARTS = 400;
const STRIP = 16;
const STRIPS = 8;

export class OverviewPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "overview", "Overview");
    this.app = app;
    this.view = { from: 0, to: 0 };
    /** @type {any} */
    this.activity = undefined;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: 100, height: STRIP }));
    this.slider = h(
      "div",
      {
        class: "overview-strip", tabindex: 0, role: "slider", "aria-label": "Time in the run", "aria-orientation": "horizontal",
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      },
      this.canvas,
    );
    this.labels = h("div", { class: "overview-labels" });
    this.text = h("div", { class: "overview-text quiet" });
    this.tools.append(
      this.text,
      button("+", "Zoom in", () => this.zoom(0.5, this.app.here.now.time)),
      button("−", "Zoom out", () => this.zoom(2, this.app.here.now.time)),
      button("All", "Show the whole run", () => this.set(this.app.here.range.start, this.app.here.range.end)),
    );
    this.body.append(this.labels, this.slider);
    this.drag();
    new ResizeObserver(() => this.draw()).observe(this.slider);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** @param {{before: any, now: any}} change */
  update(change) {
    const { range, now } = this.app.here;
    if (this.view.to === 0 || change.before.process !== change.now.process) this.set(range.start, range.end);
    else if (now.time < this.view.from || now.time > this.view.to) {
      const half = (this.view.to - this.view.from) / 2;
      this.set(now.time - half, now.time + half);
    }
    this.slider.setAttribute("aria-valuemin", String(range.start));
    this.slider.setAttribute("aria-valuemax", String(range.end));
    this.slider.setAttribute("aria-valuenow", String(now.time));
    this.slider.setAttribute("aria-valuetext", `${count(now.time)} of ${count(range.end)} instructions`);
    this.draw();
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  set(from, to) {
    const { range, now } = this.app.here;
    const length = Math.max(50, Math.min(to - from, range.end - range.start));
    let start = Math.round(Math.max(range.start, Math.min(from, range.end - length)));
    const end = Math.min(range.end, Math.round(start + length));
    start = Math.min(start, Math.max(range.start, end - 1));
    this.view = { from: start, to: end };
    this.draw();
    if (end <= start) return;
    this.load(async (ask) => {
      this.activity = await ask("run.activity", { process: now.process, from: start, to: end, parts: PARTS });
      this.draw();
    });
  }

  /**
   * @param {number} factor
   * @param {number} around
   */
  zoom(factor, around) {
    const { from, to } = this.view;
    this.set(around - (around - from) * factor, around + (to - around) * factor);
  }

  /** @param {number} x */
  timeAt(x) {
    const box = this.slider.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (x - box.left) / box.width));
    return Math.round(this.view.from + share * (this.view.to - this.view.from));
  }

  drag() {
    this.slider.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.slider.setPointerCapture(event.pointerId);
      const start = event.clientX;
      const move = (/** @type {PointerEvent} */ moved) => {
        this.selection = Math.abs(moved.clientX - start) > 4 ? [start, moved.clientX] : undefined;
        this.draw();
      };
      const up = (/** @type {PointerEvent} */ done) => {
        this.slider.removeEventListener("pointermove", move);
        const selection = this.selection;
        this.selection = undefined;
        if (selection) {
          const times = selection.map((x) => this.timeAt(x)).sort((one, other) => one - other);
          this.set(times[0], times[1]);
        } else {
          this.app.here.go({ time: this.timeAt(done.clientX), why: "chosen in the overview" });
        }
      };
      this.slider.addEventListener("pointermove", move);
      this.slider.addEventListener("pointerup", up, { once: true });
    });
    this.slider.addEventListener("wheel", (event) => {
      event.preventDefault();
      clearTimeout(this.wheelTimer);
      this.wheelFactor = (this.wheelFactor ?? 1) * (event.deltaY > 0 ? 1.25 : 0.8);
      const around = this.timeAt(event.clientX);
      this.wheelTimer = setTimeout(() => {
        this.zoom(this.wheelFactor ?? 1, around);
        this.wheelFactor = 1;
      }, 40);
    }, { passive: false });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { range, now } = this.app.here;
    const part = Math.max(1, Math.round((this.view.to - this.view.from) / 50));
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: now.time - part, ArrowRight: now.time + part, PageUp: now.time - 10 * part, PageDown: now.time + 10 * part, Home: range.start, End: range.end };
    if (event.key in moves) this.app.here.go({ time: moves[event.key], why: "chosen in the overview" });
    else if (event.key === "+" || event.key === "=") this.zoom(0.5, now.time);
    else if (event.key === "-") this.zoom(2, now.time);
    else return;
    event.preventDefault();
  }

  draw() {
    if (!this.app.overview) return;
    const { from, to } = this.view;
    const threads = (this.activity?.threads ?? []).slice(0, STRIPS);
    const width = this.slider.clientWidth;
    const height = Math.max(1, threads.length) * STRIP;
    const scale = devicePixelRatio;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    const hidden = (this.activity?.threads.length ?? 0) - threads.length;
    this.text.textContent = `${count(from)} – ${count(to)} instructions${hidden > 0 ? `, ${hidden} more threads` : ""}`;
    this.labels.replaceChildren(
      ...threads.map((/** @type {any} */ thread) => {
        const label = h("span", { title: `thread ${thread.thread} ${this.app.threadName(thread.thread)}` }, this.app.threadName(thread.thread) || String(thread.thread));
        label.style.height = `${STRIP}px`;
        return label;
      }),
    );
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.scale(scale, scale);
    const x = (/** @type {number} */ time) => ((time - from) / Math.max(1, to - from)) * width;
    const shown = this.activity;
    if (shown) {
      const partLength = (shown.to - shown.from) / PARTS;
      threads.forEach((/** @type {any} */ thread, /** @type {number} */ row) => {
        const highestCalls = Math.max(1, ...thread.syscalls);
        for (let part = 0; part < PARTS; part++) {
          const left = x(shown.from + part * partLength);
          const right = x(shown.from + (part + 1) * partLength);
          const share = Math.min(1, thread.instructions[part] / Math.max(1, partLength));
          context.fillStyle = colour("--activity");
          if (share > 0) context.fillRect(left, row * STRIP + STRIP - 2 - share * (STRIP - 4), Math.max(0.6, right - left), Math.max(1, share * (STRIP - 4)));
          if (thread.syscalls[part]) {
            const tall = 2 + (Math.log1p(thread.syscalls[part]) / Math.log1p(highestCalls)) * (STRIP - 6);
            context.fillStyle = colour("--activity-calls");
            context.fillRect(left, row * STRIP + STRIP - 2 - tall, Math.max(1, right - left), tall);
          }
        }
      });
    }
    for (const event of this.app.timeline.events) {
      if (event.time < from || event.time > to) continue;
      context.fillStyle = colour("--mark");
      context.fillRect(x(event.time), 0, event.end ? Math.max(1.5, x(event.end) - x(event.time)) : 1.5, 4);
    }
    if (this.selection) {
      const box = this.slider.getBoundingClientRect();
      context.fillStyle = colour("--selection");
      context.fillRect(this.selection[0] - box.left, 0, this.selection[1] - this.selection[0], height);
    }
    context.fillStyle = colour("--now");
    context.fillRect(x(this.app.here.now.time) - 1, 0, 2, height);
  }
}
