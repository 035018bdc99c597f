// @ts-check
// The page: connects, makes the panes, and tells them when the moment moves.

import { h, button, announce } from "./dom.js";
import { Api, takeToken } from "./api.js";
import { Here, readHash } from "./moment.js";
import { Sources } from "./sources.js";
import { Keys } from "./keys.js";
import { makeHelp } from "./help.js";
import { split, tabs } from "./layout.js";
import { Search, describeFound } from "./search.js";
import { applyTheme, toggleTheme } from "./theme.js";
import { count, placeText } from "./format.js";
import { follow } from "./follow.js";
import { StackPane } from "./panes/stack.js";
import { SourcePane } from "./panes/source.js";
import { DisassemblyPane } from "./panes/disassembly.js";
import { DataPane } from "./panes/data.js";
import { HistoryPane } from "./panes/history.js";
import { MemoryPane } from "./panes/memory.js";
import { TimelinePane } from "./panes/timeline.js";
import { OverviewPane } from "./panes/overview.js";
import { TablePane } from "./panes/table.js";
import { OutputPane } from "./panes/output.js";
import { NotebookPane } from "./panes/notebook.js";

/** Frames in which source is looked for. */
const FRAMES_TRIED = 12;

export class App {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    this.here = new Here();
    /** @type {any} */
    this.run = undefined;
    /** @type {{thread: number, since: number, name: string}[]} */
    this.names = [];
    /** @type {any[]} */
    this.frames = [];
    this.sources = new Sources(this.here);
    this.wantsSource = false;
    this.openedForLack = false;
    this.threadName = this.threadName.bind(this);
    this.timeline = new TimelinePane(this);
    this.overview = new OverviewPane(this);
    this.stack = new StackPane(this);
    this.source = new SourcePane(this);
    this.disassembly = new DisassemblyPane(this);
    this.data = new DataPane(this);
    this.table = new TablePane(this);
    this.history = new HistoryPane(this);
    this.memory = new MemoryPane(this);
    this.output = new OutputPane(this);
    this.notebook = new NotebookPane(this);
    this.search = new Search(this);
    this.keys = new Keys();
    this.showHelp = makeHelp(this.keys);
  }

  async start() {
    this.layOut();
    this.bindKeys();
    this.here.addEventListener("move", (event) => this.moved(/** @type {CustomEvent} */ (event).detail));
    this.run = await this.api.ask("run.info", {});
    for (const process of this.run.processes) {
      if (process.end !== undefined) this.here.processes.set(process.process, { start: process.start, end: process.end });
    }
    this.showRun();
    this.notebook.open().catch((error) => this.notebook.say(error.message));
    const linked = readHash();
    if (linked) this.here.set(linked, "");
    else await this.openEnd();
  }

  /** The crash, or the end. */
  async openEnd() {
    const { processes } = this.run;
    const ended = processes.filter((/** @type {any} */ process) => process.end !== undefined);
    const crashed = ended.find((/** @type {any} */ process) => process.exit.how === "signalled");
    const whole = ended.filter((/** @type {any} */ process) => process.exit.how !== "executed");
    const opened = crashed ?? whole[0] ?? ended[0];
    if (!opened) return this.notice("Nothing of this recording can be replayed.");
    const why = crashed ? `${crashed.exit.name ?? "a signal"} ended the process` : "the end of the run";
    if (crashed) this.timeline.note({ kind: "signal", time: opened.end, title: crashed.exit.name ?? "signal", place: "ended the process" });
    this.here.go({ process: opened.process, time: opened.end, replace: true, why });
  }

  showRun() {
    document.title = `${this.run.command.join(" ")} · Retrospect`;
    const end = this.run.end;
    const how = end.how === "signalled" ? `ended by ${end.name ?? end.signal}` : end.how === "exited" ? `exit status ${end.status}` : end.how;
    this.runName.textContent = this.run.command.join(" ");
    this.runName.title = `${this.run.recording}\n${count(this.run.instructions)} instructions, ${how}`;
    const processes = [...this.here.processes.keys()];
    this.processes.hidden = processes.length < 2;
    this.processes.replaceChildren(
      ...this.run.processes
        .filter((/** @type {any} */ process) => process.end !== undefined)
        .map((/** @type {any} */ process) => h("option", { value: process.process }, `process ${process.pid ?? process.process} · ${process.exit.name ?? process.exit.how}`)),
    );
  }

  /** @param {any} change */
  moved(change) {
    const { now, before } = change;
    if (now.process !== before.process || !this.namesAsked) this.askNames(now.process);
    this.time.value = count(now.time);
    this.processes.value = String(now.process);
    if (change.timeMoved) announce(`${change.why ? change.why + ", " : ""}time ${count(now.time)}`);
    this.wantsSource = change.timeMoved && now.frame === 0;
    if (change.timeMoved) {
      this.shownFrame = "";
      this.data.moved();
    }
    this.stack.update(change);
    if (change.timeMoved) {
      this.timeline.update();
      this.overview.update(change);
      this.history.update();
      this.output.update();
      this.table.moved();
      this.memory.update(change);
    } else if (now.thread === this.stack.thread || now.thread === undefined) {
      this.frameChanged(this.frames, this.stack.thread ?? 0);
    }
  }

  /**
   * The call stack is known.
   * @param {any[]} frames
   * @param {number} thread
   */
  frameChanged(frames, thread) {
    this.frames = frames;
    const frame = frames[this.here.now.frame];
    const key = `${this.here.now.process} ${this.here.now.time} ${thread} ${this.here.now.frame} ${frame?.pc}`;
    if (key === this.shownFrame) return;
    this.shownFrame = key;
    this.disassembly.update(frame);
    if (this.wantsSource) this.chooseFrame(frames, thread);
    else this.showFrame(frame);
  }

  /** @param {any} frame */
  showFrame(frame) {
    this.source.update(frame);
    this.data.reload();
  }

  /**
   * Where the innermost function has no source, as in libraries, its nearest caller that has one says more. Only when somebody comes to a
   * moment: a frame that was chosen stays.
   * @param {any[]} frames
   * @param {number} thread
   */
  async chooseFrame(frames, thread) {
    this.wantsSource = false;
    const { now } = this.here;
    const ask = (/** @type {string} */ method, /** @type {object} */ params) => this.api.ask(method, params);
    for (const [index, frame] of frames.slice(0, FRAMES_TRIED).entries()) {
      if (!frame.source) continue;
      const canRead = await this.sources.canRead(ask, frame.source.path, frame.source.line);
      if (this.here.now !== now) return;
      if (!canRead) continue;
      if (this.openedForLack && !this.disassembly.root.hidden) this.toggleDisassembly();
      if (index > 0) this.here.go({ frame: index, thread, replace: true });
      else this.showFrame(frame);
      return;
    }
    if (this.here.now !== now) return;
    this.showFrame(frames[0]);
    this.wantDisassembly();
  }

  /** @param {number} process */
  async askNames(process) {
    this.namesAsked = true;
    this.names = await this.api.ask("thread.names", { process }).catch(() => []);
    this.overview.draw();
  }

  /** @param {number} thread */
  threadName(thread) {
    const known = this.names.filter((name) => name.thread === thread && name.since <= this.here.now.time);
    return (known[known.length - 1] ?? this.names.find((name) => name.thread === thread))?.name ?? "";
  }

  placeNow() {
    return placeText(this.frames[this.here.now.frame]);
  }

  /** @param {import("./follow.js").Followed} value */
  follow(value) {
    return follow(this, value);
  }

  /** @param {string} query */
  runQuery(query) {
    this.timeline.load(async (ask) => {
      const page = await ask("goto", { ...this.here.inFrame(), query: query.replace(/^goto\s+/i, "") });
      const found = page.items[0];
      if (!found) throw new Error("Nothing was found.");
      this.timeline.note({ kind: found.event.type === "store" ? "write" : "visit", time: found.time, thread: found.thread, title: describeFound(found), place: query });
      queueMicrotask(() => this.here.go({ time: found.time, thread: found.thread ?? null, why: query }));
    });
  }

  /**
   * @param {"forward" | "backward"} direction
   * @param {"over" | "into" | "out"} calls
   * @param {"line" | "instruction"} [unit]
   */
  step(direction, calls, unit = "line") {
    const { process, time, thread } = this.here.now;
    const who = thread ?? this.stack.thread;
    this.stack.load(async (ask) => {
      const found = await ask("step", { process, time, direction, calls, unit, ...(who === undefined ? {} : { thread: who }) });
      if (!found || (found.time === time && found.steps === 0)) {
        announce("no further");
        throw new Error(direction === "forward" ? "The thread goes no further." : "The thread was not earlier.");
      }
      queueMicrotask(() => this.here.go({ time: found.time, thread: found.thread, why: `step ${direction}` }));
    });
  }

  /** @param {string} text */
  notice(text) {
    const element = /** @type {HTMLElement} */ (document.getElementById("notice"));
    element.textContent = text;
    element.hidden = text === "";
  }

  /** There is no source: instructions are better than nothing. */
  wantDisassembly() {
    if (!this.disassembly.root.hidden) return;
    this.toggleDisassembly();
    this.openedForLack = true;
  }

  toggleDisassembly() {
    const { root } = this.disassembly;
    this.openedForLack = false;
    root.hidden = !root.hidden;
    const line = /** @type {HTMLElement | null} */ (root.previousElementSibling);
    if (line) line.hidden = root.hidden;
    this.disassembly.update(this.frames[this.here.now.frame]);
  }

  layOut() {
    this.runName = h("span", { class: "run-name" });
    this.processes = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Process", hidden: true }));
    this.processes.addEventListener("change", () => {
      const process = Number(this.processes.value);
      this.here.go({ process, time: this.here.processes.get(process)?.end ?? 0, thread: null });
    });
    this.time = /** @type {HTMLInputElement} */ (h("input", { id: "time", type: "text", "aria-label": "Time: instructions since the start", autocomplete: "off", spellcheck: "false" }));
    this.time.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.here.go({ time: Number(this.time.value.replace(/[^\d]/g, "")) });
    });
    const step = (/** @type {string} */ text, /** @type {string} */ label, /** @type {any} */ direction, /** @type {any} */ calls, /** @type {any} */ unit) =>
      button(text, label, () => this.step(direction, calls, unit));
    const steps = h(
      "div",
      { class: "steps", role: "toolbar", "aria-label": "Steps" },
      step("⇤ out", "Back to the call of this function (U)", "backward", "out"),
      step("← into", "Back to the line before, into calls (S)", "backward", "into"),
      step("← line", "Back to the line before (N)", "backward", "over"),
      step("← instr", "Back by an instruction (I)", "backward", "into", "instruction"),
      step("instr →", "On by an instruction (i)", "forward", "into", "instruction"),
      step("line →", "On to the next line (n)", "forward", "over"),
      step("into →", "On to the next line, into calls (s)", "forward", "into"),
      step("out ⇥", "On until this function returns (u)", "forward", "out"),
    );
    const top = /** @type {HTMLElement} */ (document.getElementById("top"));
    top.append(
      this.runName, this.processes, this.search.element, steps,
      h("label", { class: "time-label" }, "time ", this.time),
      button("Disassembly", "Show or hide the disassembly (d)", () => this.toggleDisassembly()),
      button("◐", "Light or dark (t)", () => (toggleTheme(), this.overview.draw())),
      button("?", "Keys (?)", () => this.showHelp()),
    );
    const code = split("row", "code", [[this.source.root, 3], [this.disassembly.root, 2]]);
    this.disassembly.root.hidden = true;
    /** @type {HTMLElement} */ (this.disassembly.root.previousElementSibling).hidden = true;
    code.setAttribute("aria-label", "Source");
    const right = split("column", "right", [[this.stack.root, 2], [this.data.root, 3]]);
    right.setAttribute("aria-label", "Call stack and data");
    const middle = split("row", "middle", [[this.timeline.root, 2], [code, 4], [right, 3]]);
    middle.setAttribute("aria-label", "Timeline, source, call stack, data");
    const bottom = tabs("Calls, output, history, memory, notebook", [this.table, this.output, this.history, this.memory, this.notebook]);
    this.showTab = bottom.show;
    bottom.element.addEventListener("tab", () => {
      if (!this.run) return;
      this.output.update();
      this.memory.update({ timeMoved: false });
    });
    const workspace = /** @type {HTMLElement} */ (document.getElementById("workspace"));
    workspace.append(this.overview.root, split("column", "all", [[middle, 5], [bottom.element, 2]]));
  }

  bindKeys() {
    const { keys } = this;
    const focus = (/** @type {() => HTMLElement | undefined} */ element) => () => element()?.focus();
    keys.add("Move", "n", "next line", () => this.step("forward", "over"));
    keys.add("Move", "N", "previous line", () => this.step("backward", "over"));
    keys.add("Move", "s", "next line, into calls", () => this.step("forward", "into"));
    keys.add("Move", "S", "previous line, into calls", () => this.step("backward", "into"));
    keys.add("Move", "u", "out of this function", () => this.step("forward", "out"));
    keys.add("Move", "U", "back to the call of this function", () => this.step("backward", "out"));
    keys.add("Move", "i", "next instruction", () => this.step("forward", "into", "instruction"));
    keys.add("Move", "I", "previous instruction", () => this.step("backward", "into", "instruction"));
    keys.add("Move", "[", "the moment you were at before", () => history.back());
    keys.add("Move", "]", "forward again", () => history.forward());
    keys.add("Move", "^", "start of the run", () => this.here.go({ time: this.here.range.start }));
    keys.add("Move", "$", "end of the run", () => this.here.go({ time: this.here.range.end }));
    keys.add("Move", ["k"], "frame further out", () => this.here.go({ frame: Math.min(this.here.now.frame + 1, this.frames.length - 1), thread: this.stack.thread }));
    keys.add("Move", ["j"], "frame further in", () => this.here.go({ frame: Math.max(0, this.here.now.frame - 1), thread: this.stack.thread }));
    keys.add("Find", ["/", "g"], "search, or goto", () => this.search.focus());
    keys.add("Find", ["<"], "previous execution of what the table shows", () => this.table.nearest(-1));
    keys.add("Find", [">"], "next execution of what the table shows", () => this.table.nearest(1));
    keys.add("Find", "w", "watch an expression", () => this.data.input.focus());
    keys.add("Find", "m", "note this moment", () => this.notebook.noteNow());
    keys.add("Panes", "1", "timeline", focus(() => this.timeline.list.element));
    keys.add("Panes", "2", "source", focus(() => this.source.list.element));
    keys.add("Panes", "3", "call stack", focus(() => this.stack.list.element));
    keys.add("Panes", "4", "data", focus(() => this.data.list.element));
    keys.add("Panes", "5", "calls and executions", () => (this.showTab("calls"), this.table.list?.element.focus()));
    keys.add("Panes", "6", "output", () => (this.showTab("output"), this.output.list.element.focus()));
    keys.add("Panes", "7", "history of a value", () => (this.showTab("history"), this.history.list.element.focus()));
    keys.add("Panes", "8", "memory", () => (this.showTab("memory"), this.memory.table.focus()));
    keys.add("Panes", "9", "notebook", () => this.showTab("notebook"));
    keys.add("Panes", "0", "overview", focus(() => this.overview.slider));
    keys.add("Panes", "d", "disassembly", () => this.toggleDisassembly());
    keys.add("Panes", "t", "light or dark", () => (toggleTheme(), this.overview.draw()));
    keys.add("Panes", "?", "this help", () => this.showHelp());
  }
}

applyTheme();
const api = new Api(takeToken());
const app = new App(api);
let isStarted = false;
api.onState = (state, wasOpen) => {
  if (state === "open") {
    app.notice("");
    if (!isStarted) {
      isStarted = true;
      app.start().catch((error) => app.notice(error.message));
    } else if (app.run) {
      app.moved({ now: app.here.now, before: app.here.now, timeMoved: true, why: "connected again" });
    }
  } else {
    app.notice(
      wasOpen
        ? "The connection to retro is lost. Trying again…"
        : "Cannot reach retro: it has ended, or this page was opened without the token. Use the address that retro ui printed.",
    );
  }
};
api.connect();
// For tests and for people with the console open.
Object.assign(window, { retro: app });
