// @ts-check
// The source: the current line, the lines that this invocation of the function executed, how often each was executed in the run. Pointing at a
// name shows its value; a click on a line lists all its executions.

import { h, button } from "../dom.js";
import { ApiError } from "../api.js";
import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { baseName, count, shortCount } from "../format.js";
import { expressionAt } from "../expressions.js";

const HOVER_AFTER = 150;

export class SourcePane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "source", "Source");
    this.app = app;
    this.path = "";
    /** The file, as it is asked for: somebody may look at another one than that of the frame. */
    this.chosen = "";
    /** @type {import("../sources.js").SourceText | undefined} */
    this.text = undefined;
    /** How often lines were executed in the whole run. @type {Map<number, number>} */
    this.counts = new Map();
    /** What is known of the invocation that was looked at last. @type {any} */
    this.invocation = undefined;
    /** @type {Map<number, number>} */
    this.executed = new Map();
    /** Lines that were counted last. @type {[number, number]} */
    this.counted = [0, 0];
    this.process = -1;
    this.current = 0;
    this.caller = false;
    this.list = new VirtualList({
      label: "Source lines",
      class: "source-list code",
      rowHeight: 19,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.activate(index),
      onRange: (first, last) => this.fillLater(first, last),
    });
    this.message = h("div", { class: "empty", hidden: true });
    this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
    this.back = button("Back to the current line", "Back to the current line", () => this.showCurrent(), { hidden: true });
    this.tools.append(this.back);
    this.body.append(this.message, this.list.element, this.tip);
    this.list.element.addEventListener("mousemove", (event) => this.hoverLater(event));
    this.list.element.addEventListener("mouseleave", () => this.hideTip());
    this.list.element.addEventListener("scroll", () => this.hideTip());
  }

  /** @param {any} frame */
  update(frame) {
    this.frame = frame;
    this.hideTip();
    this.chosen = "";
    this.show(frame?.source?.path ?? "", frame?.source?.line ?? 0);
  }

  showCurrent() {
    this.update(this.frame);
  }

  /**
   * Looks at some line of some file, whatever is current.
   * @param {string} path
   * @param {number} line
   */
  open(path, line) {
    this.chosen = path;
    this.show(path, line);
  }

  /**
   * @param {string} path
   * @param {number} line
   */
  show(path, line) {
    const { here } = this.app;
    const isOther = this.chosen !== "" && this.chosen !== this.frame?.source?.path;
    this.back.hidden = !isOther;
    this.load(async (ask) => {
      if (!path) return this.lack(this.frame ? `There is no source line for ${this.frame.function ?? this.frame.pc}.` : "");
      try {
        const text = await this.app.sources.open(ask, path, line);
        if (path !== this.path || here.now.process !== this.process) {
          this.counts.clear();
          this.counted = [0, 0];
        }
        this.path = path;
        this.process = here.now.process;
        this.text = text;
        this.heading.textContent = baseName(text.path);
        this.heading.title = text.found + (text.isNewer ? "\nChanged since the program was built: lines may not match." : "");
        this.root.classList.toggle("newer", text.isNewer);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.path = "";
        return this.lack(error.message);
      }
      this.message.hidden = true;
      this.list.element.hidden = false;
      this.current = isOther ? 0 : line;
      this.caller = here.now.frame > 0;
      if (!isOther) this.executed = new Map();
      this.list.setCount(/** @type {import("../sources.js").SourceText} */ (this.text).lineCount);
      this.list.setActive(line - 1, "nearest");
      if (line - 1 < this.list.firstVisible() + 3 || line - 1 > this.list.firstVisible() + this.list.visibleRows() - 4) {
        this.list.show(line - 1, "center");
      }
      const counting = this.lacksCounts() ? this.countNow(ask) : undefined;
      const invocation = await this.invocationNow(ask);
      const own = (invocation?.lines ?? []).filter((/** @type {any} */ entry) => entry.path === path);
      this.executed = new Map(own.map((/** @type {any} */ entry) => [entry.line, entry.count]));
      this.list.refresh();
      await counting;
    });
  }

  /**
   * The lines of the invocation that the frame is of. While it lasts they stay the same.
   * @param {import("../pane.js").Ask} ask
   */
  async invocationNow(ask) {
    const { time, process } = this.app.here.now;
    const { function: name, frame_address: address } = this.frame ?? {};
    const which = `${process} ${this.app.stack.thread} ${name} ${address}`;
    const known = this.invocation;
    if (address && known?.which === which && known.from <= time && time < known.to) return known;
    const found = await ask("call.lines", this.app.here.inFrame());
    this.invocation = found && { ...found, which };
    return found;
  }

  /** @param {string} why */
  lack(why) {
    this.heading.textContent = "Source";
    const show = button("Show the disassembly", "Show the disassembly (d)", () => this.app.wantDisassembly());
    this.message.replaceChildren(h("p", {}, why.charAt(0).toUpperCase() + why.slice(1)), show);
    this.message.hidden = false;
    this.list.element.hidden = true;
  }

  /**
   * The lines that can be seen, and their counts, once scrolling has come to rest.
   * @param {number} first
   * @param {number} last
   */
  fillLater(first, last) {
    this.range = [first, last];
    clearTimeout(this.fillTimer);
    this.fillTimer = setTimeout(async () => {
      if (this.running || !this.path) return;
      const ask = (/** @type {string} */ method, /** @type {object} */ params) => this.api.ask(method, params);
      const { text, path } = this;
      const counting = this.lacksCounts() ? this.countNow(ask).catch(() => {}) : undefined;
      for (const line of [first + 1, last]) {
        if (line > (text?.lineCount ?? 0) || text?.line(line) !== undefined) continue;
        await this.app.sources.open(ask, path, line).catch(() => {});
        if (this.text === text) this.list.refresh();
      }
      await counting;
    }, 60);
  }

  lacksCounts() {
    const [first, last] = this.range ?? [0, 0];
    const [from, to] = this.counted;
    return first < from || Math.min(last, this.text?.lineCount ?? 0) > to;
  }

  /** @param {import("../pane.js").Ask} ask */
  async countNow(ask) {
    const { here } = this.app;
    const [first, last] = this.range ?? [0, 100];
    const from = Math.max(1, first - 100);
    const size = Math.min(2000, last - first + 250);
    const path = this.path;
    const counts = await ask("lines.counts", { ...here.at(), file: path, first: from, count: size });
    if (path !== this.path) return;
    this.counted = [from - 1, from + size - 1];
    for (const entry of counts) this.counts.set(entry.line, entry.total);
    this.list.refresh();
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const line = index + 1;
    const total = this.counts.get(line);
    const executed = this.executed.get(line);
    row.classList.toggle("current", line === this.current);
    row.classList.toggle("caller", line === this.current && this.caller);
    row.classList.toggle("executed", executed !== undefined);
    row.classList.toggle("never", total === 0);
    if (line === this.current) row.setAttribute("aria-current", "true");
    const shown = total ? shortCount(total) : "";
    const times = total === undefined ? "" : `executed ${count(total)} times`;
    const here = executed !== undefined ? `, ${count(executed)} times in this call` : "";
    row.append(
      cell("line-number", String(line)),
      cell("count", times && h("span", { title: times + here, "aria-label": times + here, role: "img" }, shown)),
      cell("text", this.text?.line(line) ?? "…"),
    );
  }

  /** @param {number} index */
  activate(index) {
    this.app.table.showLine(this.path, index + 1);
  }

  /** @param {MouseEvent} event */
  hoverLater(event) {
    clearTimeout(this.hoverTimer);
    this.hoverTimer = setTimeout(() => this.hover(event), HOVER_AFTER);
  }

  /** @param {MouseEvent} event */
  async hover(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const text = /** @type {HTMLElement | null} */ (target.closest?.(".text"));
    const range = text && document.caretRangeFromPoint?.(event.clientX, event.clientY);
    if (!text || !range || range.startContainer.parentNode !== text) return this.hideTip();
    const expression = expressionAt(text.textContent ?? "", range.startOffset);
    if (!expression) return this.hideTip();
    if (expression === this.tipExpression) return;
    this.tipExpression = expression;
    this.hovering?.abort();
    this.hovering = new AbortController();
    try {
      const value = await this.api.ask("evaluate", { ...this.app.here.inFrame(), expression }, { signal: this.hovering.signal });
      this.tip.textContent = `${expression} = ${value.text}`;
      this.tip.hidden = false;
      const box = this.body.getBoundingClientRect();
      this.tip.style.left = `${Math.min(event.clientX - box.left, box.width - 40)}px`;
      this.tip.style.top = `${event.clientY - box.top + 16}px`;
    } catch {
      this.hideTip();
    }
  }

  hideTip() {
    clearTimeout(this.hoverTimer);
    this.hovering?.abort();
    this.tip.hidden = true;
    this.tipExpression = "";
  }
}
