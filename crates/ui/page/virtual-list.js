// @ts-check
// A list of any length: only rows that can be seen exist. Rows have one height; beyond what a browser can lay out, the scroll bar stands for a
// part of the list and the wheel still moves by rows. Works by keyboard: arrows, pages, Home, End, Enter.

import { h } from "./dom.js";

/** Pixels that an element may be high everywhere. */
const HIGHEST = 8_000_000;

/** Rows beyond those that can be seen. */
const MARGIN = 6;

let lists = 0;

/**
 * @typedef {object} ListOptions
 * @property {string} label what it is a list of, for people who hear it
 * @property {number} [rowHeight]
 * @property {(index: number, row: HTMLElement) => void} render fills an empty row
 * @property {(index: number, event: Event) => void} [onActivate] a click, or Enter
 * @property {(first: number, last: number) => void} [onRange] which rows can be seen
 * @property {string} [class]
 * @property {HTMLElement} [header] a row with the names of the columns
 * @property {"grid" | "treegrid"} [role]
 * @property {(index: number, event: KeyboardEvent) => boolean} [onKey] a key that is none of the list's; true if it meant something
 */

export class VirtualList {
  /** @param {ListOptions} options */
  constructor(options) {
    this.options = options;
    this.rowHeight = options.rowHeight ?? 20;
    this.count = 0;
    this.active = -1;
    this.id = `list${++lists}`;
    this.rows = h("div", { class: "rows", role: "presentation" });
    this.space = h("div", { class: "space", role: "presentation" }, this.rows);
    this.element = h(
      "div",
      {
        class: `virtual-list ${options.class ?? ""}`, tabindex: 0, role: options.role ?? "grid", "aria-label": options.label,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
        onclick: (/** @type {MouseEvent} */ event) => this.click(event),
      },
      options.header,
      this.space,
    );
    this.headerHeight = options.header ? this.rowHeight + 2 : 0;
    /** @type {Map<number, HTMLElement>} */
    this.shown = new Map();
    this.frame = 0;
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.schedule()).observe(this.element);
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    this.height = Math.min(count * this.rowHeight, HIGHEST);
    this.space.style.height = `${this.height}px`;
    this.element.setAttribute("aria-rowcount", String(count));
    if (this.active >= count) this.active = count - 1;
    this.refresh();
  }

  /** Draws all rows anew. */
  refresh() {
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.draw();
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  visibleRows() {
    return Math.max(1, Math.floor((this.element.clientHeight - this.headerHeight) / this.rowHeight));
  }

  /** Whether the scroll bar stands for more than it is long. */
  isScaled() {
    return this.count * this.rowHeight > HIGHEST;
  }

  firstVisible() {
    if (!this.isScaled()) return Math.floor(this.element.scrollTop / this.rowHeight);
    const travel = Math.max(1, HIGHEST - this.element.clientHeight + this.headerHeight);
    const share = Math.min(1, this.element.scrollTop / travel);
    return Math.round(share * Math.max(0, this.count - this.visibleRows()));
  }

  draw() {
    this.frame = 0;
    const top = this.firstVisible();
    const first = Math.max(0, top - MARGIN);
    const last = Math.min(this.count, top + this.visibleRows() + MARGIN + 1);
    for (const [index, row] of this.shown) {
      if (index < first || index >= last) {
        row.remove();
        this.shown.delete(index);
      }
    }
    // In a scaled list rows lie around what can be seen, wherever that is.
    const base = this.isScaled() ? Math.max(0, this.element.scrollTop) - (top - first) * this.rowHeight : first * this.rowHeight;
    const limit = Math.max(0, (this.height ?? 0) - (last - first) * this.rowHeight);
    this.rows.style.transform = `translateY(${Math.min(base, limit)}px)`;
    for (let index = first; index < last; index++) {
      let row = this.shown.get(index);
      if (!row) {
        row = h("div", { class: "row", role: "row", id: `${this.id}-${index}`, "aria-rowindex": index + 1, "data-index": index });
        row.style.height = `${this.rowHeight}px`;
        this.options.render(index, row);
        this.shown.set(index, row);
        this.rows.append(row);
      }
      row.style.top = `${(index - first) * this.rowHeight}px`;
      row.classList.toggle("active", index === this.active);
    }
    const described = this.shown.has(this.active) ? `${this.id}-${this.active}` : "";
    if (described) this.element.setAttribute("aria-activedescendant", described);
    else this.element.removeAttribute("aria-activedescendant");
    this.options.onRange?.(first, last);
  }

  /**
   * Brings a row into view.
   * @param {number} index
   * @param {"nearest" | "center"} [where]
   */
  show(index, where = "nearest") {
    const visible = this.visibleRows();
    const top = this.firstVisible();
    if (where === "nearest" && index >= top && index < top + visible) return this.draw();
    let wanted = where === "center" ? index - Math.floor(visible / 2) : index < top ? index : index - visible + 1;
    wanted = Math.max(0, Math.min(wanted, Math.max(0, this.count - visible)));
    if (this.isScaled()) {
      const travel = HIGHEST - this.element.clientHeight + this.headerHeight;
      this.element.scrollTop = (wanted / Math.max(1, this.count - visible)) * travel;
    } else {
      this.element.scrollTop = wanted * this.rowHeight;
    }
    this.draw();
  }

  /**
   * @param {number} index
   * @param {"nearest" | "center"} [where]
   */
  setActive(index, where) {
    this.active = Math.max(-1, Math.min(index, this.count - 1));
    if (this.active >= 0) this.show(this.active, where);
    else this.draw();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!this.isScaled() || event.ctrlKey || event.deltaY === 0) return;
    event.preventDefault();
    const rows = event.deltaMode === 0 ? event.deltaY / this.rowHeight : event.deltaY * (event.deltaMode === 2 ? this.visibleRows() : 1);
    const step = Math.sign(rows) * Math.max(1, Math.round(Math.abs(rows)));
    const visible = this.visibleRows();
    const wanted = Math.max(0, Math.min(this.firstVisible() + step, this.count - visible));
    const travel = HIGHEST - this.element.clientHeight + this.headerHeight;
    this.element.scrollTop = (wanted / Math.max(1, this.count - visible)) * travel;
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("button, input, textarea, select, a")) return;
    const row = /** @type {HTMLElement | null} */ (target.closest(".row"));
    if (!row?.dataset.index) return;
    this.setActive(Number(row.dataset.index));
    this.options.onActivate?.(this.active, event);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target !== this.element || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = this.visibleRows();
    const from = this.active < 0 ? this.firstVisible() - 1 : this.active;
    /** @type {Record<string, number>} */
    const moves = {
      ArrowDown: from + 1, ArrowUp: Math.max(0, from - 1), PageDown: from + page, PageUp: Math.max(0, from - page),
      Home: 0, End: this.count - 1,
    };
    if (event.key in moves) this.setActive(Math.min(moves[event.key], this.count - 1));
    else if (event.key === "Enter" && this.active >= 0) this.options.onActivate?.(this.active, event);
    else if (this.active < 0 || !this.options.onKey?.(this.active, event)) return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/**
 * A cell of a row.
 * @param {string} className
 * @param {...import("./dom.js").Child} children
 */
export function cell(className, ...children) {
  return h("span", { class: `cell ${className}`, role: "gridcell" }, ...children);
}

/**
 * The row with the names of the columns.
 * @param {[string, string, (() => void)?][]} columns class, name, what a click does
 */
export function headerRow(columns) {
  return h(
    "div",
    { class: "row header", role: "row" },
    columns.map(([className, name, onclick]) =>
      h(
        "span",
        { class: `cell ${className}`, role: "columnheader" },
        onclick ? h("button", { type: "button", class: "plain", onclick, title: `Sort by ${name}` }, name) : name,
      ),
    ),
  );
}
