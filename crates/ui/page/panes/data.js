// @ts-check
// Data: watch expressions, locals and parameters of the frame, and globals of its file if somebody unfolds them. Every value says when it was last written; a click goes there.

import { h, button } from "../dom.js";
import { Cancelled } from "../api.js";
import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { count, placeText } from "../format.js";
import { ValueTree } from "./values.js";

/** Values up to this size are asked for their last write at once; larger ones when they are clicked. */
const SMALL = 64;

/** Values that are asked for their last writes. */
const ASKED = 200;

/** Pieces of the run that are looked into for that at once; who clicks a value waits for more. */
const PIECES = 16;

/** Globals that are shown at first, and added each time. */
const GLOBALS = 100;

/** @typedef {{section: string, isGlobals?: boolean, more?: boolean}} Section */

export class DataPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "data", "Data");
    this.app = app;
    this.tree = new ValueTree();
    /** @type {string[]} */
    this.watches = JSON.parse(sessionStorage.getItem("watches") ?? "[]");
    /** @type {(import("./values.js").ValueRow | Section)[]} */
    this.rows = [];
    /** Globals that are shown; none while they are folded. */
    this.globals = 0;
    /** @type {Map<string, any>} */
    this.writes = new Map();
    const input = /** @type {HTMLInputElement} */ (
      h("input", { id: "watch", type: "text", placeholder: "Watch an expression", "aria-label": "Watch an expression", autocomplete: "off", spellcheck: "false" })
    );
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !input.value.trim()) return;
      this.watch(input.value.trim());
      input.value = "";
    });
    this.input = input;
    this.tools.append(input);
    this.list = new VirtualList({
      label: "Variables. Enter goes to the last write, right and left unfold, h shows the history, x the memory, w watches, Delete removes a watch",
      class: "data-list code",
      role: "treegrid",
      rowHeight: 21,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => this.activate(index),
      onKey: (index, event) => this.key(index, event),
    });
    this.body.append(this.list.element);
  }

  /** The values are about to be those of another moment, in a frame that is not known yet. */
  moved() {
    this.tree.moved();
    this.load((_, signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Cancelled()))));
  }

  reload() {
    const at = this.app.here.inFrame();
    this.load(async (ask) => {
      const watched = Promise.all(
        this.watches.map(/** @returns {Promise<import("./values.js").ValueRow[]>} */ async (expression) => {
          try {
            return this.tree.rowsOf(ask, at, expression, await ask("evaluate", { ...at, expression }), "watch");
          } catch (error) {
            if (!("code" in /** @type {any} */ (error))) throw error;
            const text = /** @type {Error} */ (error).message;
            return [{ key: `watch:${expression}/`, root: expression, path: [], depth: 0, expression, group: "watch", isChanged: false, isError: true, canExpand: false, isExpanded: false, node: { name: expression, type: "", text, part_count: 0 } }];
          }
        }),
      );
      const locals = ask("locals", at).then((list) =>
        Promise.all(
          list
            .filter((/** @type {any} */ local) => !local.is_shadowed)
            .map((/** @type {any} */ local) => this.tree.rowsOf(ask, at, local.value.name, local.value, "local")),
        ),
      );
      const [watchRows, localRows, globalRows] = await Promise.all([watched, locals, this.globalRows(ask, at)]);
      this.rows = [];
      if (watchRows.length) this.rows.push({ section: "Watched" }, ...watchRows.flat());
      this.rows.push({ section: localRows.length ? "Locals" : "No variables here" }, ...localRows.flat());
      const hiding = new Set(localRows.flat().map(({ root }) => root));
      this.rows.push(...globalRows.filter((row) => "section" in row || !hiding.has(row.root)));
      const active = this.list.active;
      this.list.setCount(this.rows.length);
      if (active >= 0) this.list.setActive(active);
      await this.askForWrites(ask);
    });
  }

  /**
   * Globals of the file of the frame. What a local hides is not among them: its name means the local.
   * @param {import("../pane.js").Ask} ask
   * @param {object} at
   * @returns {Promise<(import("./values.js").ValueRow | Section)[]>}
   */
  async globalRows(ask, at) {
    if (!this.globals) return [{ section: "Globals", isGlobals: true }];
    const page = await ask("globals", { ...at, limit: this.globals });
    const values = await Promise.all(
      page.items.map((/** @type {any} */ item) => this.tree.rowsOf(ask, at, item.value.name, item.value, "global")),
    );
    const section = page.items.length ? "Globals of this file" : "This file has no globals";
    /** @type {Section[]} */
    const more = page.next ? [{ section: "More globals", isGlobals: true, more: true }] : [];
    return [{ section, isGlobals: true }, ...values.flat(), ...more];
  }

  /**
   * When each value was last written.
   * @param {import("../pane.js").Ask} ask
   */
  async askForWrites(ask) {
    const at = this.app.here.at();
    this.writes = new Map();
    const small = this.rows.flatMap((row) => ("node" in row && isSmall(row.node) ? [row] : [])).slice(0, ASKED);
    if (!small.length) return;
    const ranges = small.map(({ node }) => ({ address: node.address, length: node.size }));
    const writes = await ask("memory.last_write_of_each", { ...at, ranges, pieces: PIECES });
    small.forEach((row, index) => this.writes.set(row.key, writes[index]));
    this.list.refresh();
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const entry = this.rows[index];
    if ("section" in entry) {
      row.classList.add("section");
      if (!entry.isGlobals) return void row.append(cell("grow", entry.section));
      const isOpen = this.globals > 0;
      const label = entry.more ? "Show more globals" : `${isOpen ? "Fold" : "Unfold"} the globals of this file`;
      if (!entry.more) row.setAttribute("aria-expanded", String(isOpen));
      const mark = entry.more ? "" : isOpen ? "▾ " : "▸ ";
      row.append(cell("grow", button(mark + entry.section, label, () => this.activate(index), { class: "plain", tabindex: -1 })));
      return;
    }
    row.setAttribute("aria-level", String(entry.depth + 1));
    row.classList.toggle("changed", entry.isChanged);
    row.classList.toggle("error", entry.isError === true);
    if (entry.more) {
      row.append(indent(entry.depth), cell("grow", button(`${count(entry.more)} more`, "Show more parts", () => this.activate(index), { class: "link", tabindex: -1 })));
      return;
    }
    if (entry.canExpand) row.setAttribute("aria-expanded", String(entry.isExpanded));
    const toggle = entry.canExpand
      ? button(entry.isExpanded ? "▾" : "▸", `${entry.isExpanded ? "Fold" : "Unfold"} ${entry.expression}`, () => this.toggle(index), { class: "toggle", tabindex: -1 })
      : h("span", { class: "toggle" });
    const { node } = entry;
    const last = this.writes.get(entry.key);
    const write = last?.write;
    const when = write ? `${count(write.time)}` : last?.is_known ? "never" : last ? "long ago" : "";
    row.append(
      indent(entry.depth, toggle),
      cell("name", node.name || "…"),
      cell(
        "value grow",
        entry.isError
          ? node.text
          : button(node.text, `${entry.expression} = ${node.text}. Go to its last write`, () => this.activate(index), { class: "value-button", tabindex: -1 }),
        entry.isChanged && h("span", { class: "hidden-label" }, " changed"),
      ),
      cell("type quiet", node.type),
      cell("time", write ? button(when, `Last written at ${when} by ${placeText(write.pc)}. Go there`, () => this.activate(index), { class: "link", tabindex: -1 }) : when),
      cell(
        "actions",
        node.address && button("hist", `History of ${entry.expression}`, () => this.history(index), { class: "icon", tabindex: -1 }),
        node.address && button("hex", `Memory of ${entry.expression}`, () => this.app.memory.open(/** @type {string} */ (node.address), entry.expression, node.size ?? 1), { class: "icon", tabindex: -1 }),
        entry.group === "watch" && entry.path.length === 0 && button("×", `Stop watching ${entry.expression}`, () => this.unwatch(entry.root), { class: "icon", tabindex: -1 }),
      ),
    );
    row.title = `${entry.expression}: ${node.type}${node.address ? ` at ${node.address}` : " in a register"}`;
  }

  /** @param {number} index */
  activate(index) {
    const row = this.rows[index];
    if (!row) return;
    if ("section" in row) {
      if (!row.isGlobals) return;
      this.globals = row.more ? this.globals + 5 * GLOBALS : this.globals ? 0 : GLOBALS;
      return this.reload();
    }
    if (row.isError) return;
    if (row.more) {
      this.tree.showMore(row);
      this.reload();
      return;
    }
    this.app.follow({ expression: row.expression, text: row.node.text, address: row.node.address, size: row.node.size });
  }

  /** @param {number} index */
  toggle(index) {
    const row = this.rows[index];
    if (!row || "section" in row || !row.canExpand) return;
    this.tree.toggle(row);
    this.reload();
  }

  /** @param {number} index */
  history(index) {
    const row = this.rows[index];
    if ("section" in row || !row.node.address) return;
    this.app.history.open({ expression: row.expression, address: row.node.address, size: row.node.size ?? 1, type: row.node.type });
  }

  /**
   * @param {number} index
   * @param {KeyboardEvent} event
   */
  key(index, event) {
    const row = this.rows[index];
    if (!row) return false;
    if ("section" in row) {
      const wants = { ArrowRight: !this.globals, ArrowLeft: this.globals > 0 }[event.key];
      if (!wants || !row.isGlobals || row.more) return false;
      this.activate(index);
      return true;
    }
    const isOpen = row.isExpanded;
    if (event.key === "ArrowRight" && row.canExpand && !isOpen) this.toggle(index);
    else if (event.key === "ArrowLeft" && isOpen) this.toggle(index);
    else if (event.key === "h") this.history(index);
    else if (event.key === "x" && row.node.address) this.app.memory.open(row.node.address, row.expression, row.node.size ?? 1);
    else if (event.key === "w") this.watch(row.expression);
    else if (event.key === "Delete" && row.group === "watch") this.unwatch(row.root);
    else return false;
    return true;
  }

  /** @param {string} expression */
  watch(expression) {
    if (!this.watches.includes(expression)) this.watches.push(expression);
    this.list.element.scrollTop = 0;
    this.keep();
  }

  /** @param {string} expression */
  unwatch(expression) {
    this.watches = this.watches.filter((other) => other !== expression);
    this.keep();
  }

  keep() {
    sessionStorage.setItem("watches", JSON.stringify(this.watches));
    this.reload();
  }
}

/**
 * Whether a value lies in little memory, and not beyond all of it.
 * @param {import("./values.js").ValueNode} node
 */
function isSmall({ address, size }) {
  return address !== undefined && size !== undefined && size > 0 && size <= SMALL && BigInt(address) + BigInt(size) < 1n << 64n;
}

/**
 * @param {number} depth
 * @param {...Node} children
 */
function indent(depth, ...children) {
  const element = cell("indent", ...children);
  element.style.paddingLeft = `${depth * 14}px`;
  return element;
}
