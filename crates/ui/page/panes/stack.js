// @ts-check
// The call stack of a thread: functions with arguments as they were at the call. A click on a frame moves every pane to it; the times lead to the
// calls themselves.

import { h, button, replace } from "../dom.js";
import { ApiError } from "../api.js";
import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { argumentText, baseName, count, placeText } from "../format.js";

/** Frames that are shown at most. */
const FRAMES = 1000;

export class StackPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    const threads = /** @type {HTMLSelectElement} */ (h("select", { id: "thread", "aria-label": "Thread" }));
    super(app.api, "stack", "Call stack", threads);
    this.app = app;
    this.threads = threads;
    /** @type {any[]} */
    this.frames = [];
    this.end = "";
    /** The rows that can be seen. @type {[number, number]} */
    this.range = [0, 0];
    this.list = new VirtualList({
      label: "Call stack, innermost frame first",
      class: "stack-list",
      rowHeight: 38,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.activate(index),
      onRange: (first, last) => this.fillLater(first, last),
    });
    this.body.append(this.list.element);
    threads.addEventListener("change", () => app.here.go({ thread: Number(threads.value), frame: 0 }));
  }

  /** @param {{timeMoved: boolean}} change */
  update(change) {
    const { here } = this.app;
    if (!change.timeMoved && this.frames.length && here.now.thread === this.shownThread) {
      this.list.refresh();
      this.list.setActive(here.now.frame);
      return;
    }
    const at = here.now.thread === undefined ? here.at() : { ...here.at(), thread: here.now.thread };
    this.load(async (ask) => {
      // Other panes wait for the stack: they show one of its frames.
      const stack = await ask("stack", { ...at, arguments: "none", limit: FRAMES }).catch((error) => {
        if (error instanceof ApiError) this.show({ frames: [], thread: here.now.thread, end: "outermost" });
        throw error;
      });
      this.show(stack);
      await Promise.all([this.fill(ask, ...this.range), this.showThreads(ask)]);
    });
  }

  /**
   * Frames that come into view, once scrolling has come to rest.
   * @param {number} first
   * @param {number} last
   */
  fillLater(first, last) {
    this.range = [first, last];
    clearTimeout(this.fillTimer);
    this.fillTimer = setTimeout(() => {
      if (!this.running) this.fill((method, params) => this.api.ask(method, params), first, last).catch(() => {});
    }, 60);
  }

  /**
   * Arguments at the calls, of frames that can be seen: every frame takes a look at another moment.
   * @param {import("../pane.js").Ask} ask
   * @param {number} first
   * @param {number} last
   */
  async fill(ask, first, last) {
    const { frames, thread } = this;
    const lacking = [...frames.keys()].slice(first, last).filter((index) => !frames[index].arguments);
    if (!lacking.length) return;
    const [from, to] = [lacking[0], lacking[lacking.length - 1] + 1];
    const stack = await ask("stack", { ...this.app.here.at(), thread, arguments: "at_call", first: from, limit: to - from });
    if (this.frames !== frames) return;
    frames.splice(from, stack.frames.length, ...stack.frames);
    this.list.refresh();
  }

  /** @param {any} stack */
  show(stack) {
    this.frames = stack.frames;
    this.end = stack.end;
    this.shownThread = this.app.here.now.thread;
    this.thread = stack.thread;
    this.threads.value = String(stack.thread);
    const note = { corrupt: 1, unknown: 1 }[/** @type {string} */ (stack.end)] ? 1 : 0;
    this.list.setCount(this.frames.length + note);
    this.list.setActive(this.app.here.now.frame);
    this.app.frameChanged(this.frames, stack.thread);
  }

  /** @param {import("../pane.js").Ask} ask */
  async showThreads(ask) {
    const { threadName, here, run } = this.app;
    const process = run.processes.find((/** @type {any} */ known) => known.process === here.now.process);
    // Of a single thread the stack has told everything.
    const only = { thread: this.thread, is_running: true, pc: { function: this.frames[0]?.function, address: this.frames[0]?.pc } };
    /** @type {any[]} */
    const list = process?.threads === 1 ? [only] : await ask("threads", here.at());
    replace(
      this.threads,
      list.map((thread) => {
        const does = thread.is_running ? "runs" : thread.in_syscall ? `in ${thread.in_syscall.name ?? "a system call"}` : "waits";
        const text = `${thread.thread} ${threadName(thread.thread)} · ${does} · ${thread.pc.function ?? thread.pc.address}`;
        return h("option", { value: thread.thread }, text);
      }),
    );
    if (this.thread !== undefined) this.threads.value = String(this.thread);
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const frame = this.frames[index];
    if (!frame) {
      row.append(cell("quiet", this.end === "corrupt" ? "The stack is damaged further out." : "Nothing says where the next frame is."));
      return;
    }
    row.classList.toggle("current", index === this.app.here.now.frame);
    if (index === this.app.here.now.frame) row.setAttribute("aria-current", "true");
    const flags = [frame.is_inlined && "inlined", frame.is_signal_frame && "signal", frame.is_guessed && "guessed"].filter(Boolean);
    const name = frame.function ?? frame.pc;
    const place = frame.source ? `${baseName(frame.source.path)}:${frame.source.line}` : baseName(frame.module);
    row.append(
      cell("number", `#${index}`),
      cell(
        "grow two-lines",
        h("span", { class: "line" }, h("span", { class: "function" }, name), "(", h("span", { class: "arguments" }, argumentText(frame.arguments)), ")"),
        h("span", { class: "line quiet" }, place, flags.length ? ` · ${flags.join(", ")}` : ""),
      ),
      cell(
        "time",
        frame.called !== undefined &&
          button(count(frame.called), `Go to the call of ${name}`, () => this.goToCall(index), { class: "link", tabindex: -1 }),
      ),
    );
    row.title = `${placeText(frame)}\n${argumentText(frame.arguments)}`;
  }

  /** @param {number} index */
  activate(index) {
    if (this.frames[index]) this.app.here.go({ frame: index, thread: this.thread });
  }

  /** @param {number} index */
  goToCall(index) {
    const frame = this.frames[index];
    this.app.timeline.note({ kind: "call", time: frame.called, thread: this.thread, title: `${frame.function}(${argumentText(frame.arguments)})`, place: placeText(frame) });
    this.app.here.go({ time: frame.called, thread: this.thread, why: `call of ${frame.function}` });
  }
}
