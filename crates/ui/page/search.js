// @ts-check
// One box for everything: functions, files, variables, types, addresses, times, expressions, and queries of the language of `goto`.

import { h } from "./dom.js";
import { Cancelled } from "./api.js";
import { baseName, count, parseTime, placeText, shortFunction } from "./format.js";

const ASK_AFTER = 80;

/** How a query begins. */
const QUERY = /^(goto\b|(now|start|end|last|\d[\w.%]*)\s+(forward|backward|f|b|fwd|back)\b|(forward|backward)\s)/i;

/** @typedef {{kind: string, text: string, detail?: string, run: () => void}} Choice */

export class Search {
  /** @param {import("./main.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {Choice[]} */
    this.choices = [];
    this.active = -1;
    this.input = /** @type {HTMLInputElement} */ (
      h("input", {
        id: "search", type: "search", role: "combobox", placeholder: "Function, file, type, expression, 0x…, time, goto …   ( / )",
        "aria-label": "Search for functions, files, types, expressions, addresses, times; or a goto query", "aria-expanded": "false",
        "aria-controls": "choices", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
      })
    );
    this.list = h("div", { id: "choices", role: "listbox", "aria-label": "What was found", hidden: true });
    this.element = h("div", { class: "search" }, this.input, this.list);
    this.input.addEventListener("input", () => this.later());
    this.input.addEventListener("focus", () => this.input.value && this.later());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => setTimeout(() => this.hide(), 150));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), ASK_AFTER);
  }

  async find() {
    const text = this.input.value.trim();
    this.asking?.abort();
    if (!text) return this.hide();
    const asking = new AbortController();
    this.asking = asking;
    const { here } = this.app;
    const ask = (/** @type {string} */ method, /** @type {object} */ params) =>
      this.app.api.ask(method, params, { signal: asking.signal }).catch((error) => {
        if (error instanceof Cancelled) throw error;
        return undefined;
      });
    /** @type {Choice[][]} */
    const groups = [[], [], [], [], [], []];
    /** Functions of just this name, also those that exist only where they are inlined. @type {any[]} */
    let inlined = [];
    const show = () => {
      if (asking.signal.aborted) return;
      const only = inlined.filter((item, index) => item.inlined_in && inlined.findIndex((other) => other.name === item.name) === index);
      const found = only.map((item) => ({ name: item.name, module: item.module, source: item.source }));
      const known = groups[2].some((choice) => found.some(({ name }) => choice.text === `Calls of ${shortFunction(name)}`));
      this.show([...groups.slice(0, 3), known ? [] : this.functionChoices(found), ...groups.slice(3)].flat());
    };
    groups[0] = this.direct(text);
    show();
    const isName = /^[\w:~<>$*.,& ()-]+$/.test(text) && /[A-Za-z_]/.test(text) && !QUERY.test(text);
    try {
      await Promise.all([
        ask("evaluate", { ...here.inFrame(), expression: text }).then((value) => {
          if (value && !/^\d+$/.test(text)) groups[1] = this.valueChoices(text, value);
          show();
        }),
        isName && ask("symbols.search", { ...here.at(), text, limit: 12 }).then((found) => ((groups[2] = this.functionChoices(found ?? [])), show())),
        isName && ask("symbols.functions", { ...here.at(), name: text, limit: 3 }).then((found) => ((inlined = found?.items ?? []), show())),
        isName && ask("symbols.search", { ...here.at(), text, variables: true, limit: 6 }).then((found) => ((groups[3] = this.variableChoices(found ?? [], text)), show())),
        isName && ask("symbols.files", { ...here.at(), text, limit: 8 }).then((found) => ((groups[4] = this.fileChoices(found ?? [])), show())),
        isName && ask("symbols.types", { ...here.at(), text, limit: 8 }).then((found) => ((groups[5] = this.typeChoices(found ?? [])), show())),
      ]);
    } catch {
      // Another search has begun.
    }
  }

  /**
   * What needs no question.
   * @param {string} text
   * @returns {Choice[]}
   */
  direct(text) {
    const { app } = this;
    const choices = [];
    const time = parseTime(text, app.here.range);
    if (time !== undefined) choices.push({ kind: "Time", text: `Go to ${count(time)}`, run: () => app.here.go({ time, why: text }) });
    if (/^0x[0-9a-f]{1,16}$/i.test(text)) {
      choices.push({ kind: "Address", text: `Memory at ${text}`, run: () => app.memory.open(text, text, 1) });
      choices.push({ kind: "Address", text: `Executions of ${text}`, run: () => app.table.showAddress(text, "the instruction") });
    }
    if (QUERY.test(text)) {
      const isList = /\ball\b/.test(text);
      choices.push({ kind: "Query", text, detail: isList ? "list all" : "go there", run: () => (isList ? app.table.showQuery(text) : app.runQuery(text)) });
    }
    return choices;
  }

  /**
   * @param {string} expression
   * @param {any} value
   * @returns {Choice[]}
   */
  valueChoices(expression, value) {
    const { app } = this;
    // A function is found as one.
    if (value.text.startsWith("{") && value.type.endsWith(")")) return [];
    const choices = [{ kind: "Value", text: `${expression} = ${value.text}`, detail: "watch", run: () => app.data.watch(expression) }];
    if (value.address) {
      choices.push({ kind: "Value", text: `Last write of ${expression}`, detail: "go there", run: () => app.follow({ expression, text: value.text, address: value.address, size: value.size }) });
      choices.push({ kind: "Value", text: `History of ${expression}`, detail: "all writes", run: () => app.history.open({ expression, address: value.address, size: value.size ?? 1, type: value.type }) });
    }
    return choices;
  }

  /**
   * @param {any[]} found
   * @returns {Choice[]}
   */
  functionChoices(found) {
    const { app } = this;
    return found.flatMap((item, index) => {
      const name = shortFunction(item.name);
      const place = item.source ? `${baseName(item.source.path)}:${item.source.line}` : baseName(item.module);
      /** @type {Choice[]} */
      const choices = [{ kind: "Function", text: `Calls of ${name}`, detail: place, run: () => app.table.showFunction(item.name).catch((error) => app.notice(error.message)) }];
      if (index < 3 && item.source) choices.push({ kind: "Function", text: `Source of ${name}`, detail: place, run: () => app.source.open(item.source.path, item.source.line) });
      if (index < 2) choices.push({ kind: "Function", text: `${name} in the timeline`, detail: "calls around now", run: () => app.timeline.addCalls(item.name) });
      return choices;
    });
  }

  /**
   * @param {any[]} found
   * @param {string} text what was typed: just this name is found as an expression
   * @returns {Choice[]}
   */
  variableChoices(found, text) {
    const others = found.filter(({ name }) => name !== text && /^[\w:.]+$/.test(name));
    return others.map((item) => ({ kind: "Variable", text: item.name, detail: "watch", run: () => this.app.data.watch(item.name) }));
  }

  /**
   * @param {string[]} found
   * @returns {Choice[]}
   */
  fileChoices(found) {
    return found.map((path) => ({ kind: "File", text: baseName(path), detail: path, run: () => this.app.source.open(path, 1) }));
  }

  /**
   * @param {{name: string, size?: number}[]} found
   * @returns {Choice[]}
   */
  typeChoices(found) {
    return found.map(({ name, size }) => ({
      kind: "Type", text: name, detail: size === undefined ? "of unknown size" : `${count(size)} bytes`, run: () => this.app.data.watch(`sizeof(${name})`),
    }));
  }

  /** @param {Choice[]} choices */
  show(choices) {
    const old = this.choices[this.active]?.text;
    this.choices = choices;
    this.active = Math.max(0, choices.findIndex((choice) => choice.text === old));
    if (!choices.length) this.active = -1;
    this.list.replaceChildren(
      ...choices.map((choice, index) =>
        h(
          "div",
          { class: "choice", role: "option", id: `choice-${index}`, "aria-selected": String(index === this.active), onmousedown: (/** @type {Event} */ event) => (event.preventDefault(), this.choose(index)) },
          h("span", { class: "kind" }, choice.kind),
          h("span", { class: "text" }, choice.text),
          h("span", { class: "quiet" }, choice.detail ?? ""),
        ),
      ),
    );
    this.list.hidden = !choices.length;
    this.input.setAttribute("aria-expanded", String(choices.length > 0));
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((child, index) => child.setAttribute("aria-selected", String(index === this.active)));
    if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `choice-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
    this.list.children[this.active]?.scrollIntoView({ block: "nearest" });
  }

  hide() {
    this.asking?.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} index */
  choose(index) {
    const choice = this.choices[index];
    this.hide();
    this.input.blur();
    choice?.run();
  }

  /** @param {KeyboardEvent} event */
  async key(event) {
    const length = this.choices.length;
    if (event.key === "ArrowDown" && length) this.active = (this.active + 1) % length;
    else if (event.key === "ArrowUp" && length) this.active = (this.active - 1 + length) % length;
    else if (event.key === "Escape") {
      this.hide();
      this.input.blur();
    } else if (event.key === "Enter") {
      const text = this.input.value.trim();
      // Who types fast means what was typed, not what was found for half of it.
      clearTimeout(this.timer);
      if (QUERY.test(text) || parseTime(text, this.app.here.range) !== undefined) {
        const [choice] = this.direct(text);
        this.hide();
        this.input.blur();
        choice?.run();
      } else {
        await this.find();
        this.choose(Math.max(0, this.active));
      }
    } else return;
    event.preventDefault();
    this.mark();
  }
}

/** @param {any} found */
export function describeFound(found) {
  const { event } = found;
  const what = event.type === "store" ? `store ${event.old_value ?? event.old} → ${event.new_value ?? event.new}` : event.type;
  return `${what} ${placeText(found.pc)}`;
}
