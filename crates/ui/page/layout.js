// @ts-check
// Panes side by side and above each other, with borders that can be dragged or moved by keyboard, and panes that share a place as tabs. Sizes are
// kept for the next time.

import { h } from "./dom.js";

const KEY = "retro-layout";

/** @returns {Record<string, number>} */
function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

/**
 * Parts in a row or a column.
 * @param {"row" | "column"} direction
 * @param {string} name what sizes are kept under
 * @param {[HTMLElement, number][]} parts with their shares
 */
export function split(direction, name, parts) {
  const element = h("div", { class: `split ${direction === "row" ? "across" : "down"}` });
  const sizes = stored();
  parts.forEach(([part, share], index) => {
    const key = `${name}${index}`;
    const size = typeof sizes[key] === "number" ? sizes[key] : share;
    part.style.flex = `${size} 1 0`;
    part.dataset.share = String(size);
    part.dataset.key = key;
    if (index > 0) element.append(border(direction, parts[index - 1][0], part));
    element.append(part);
  });
  return element;
}

/**
 * @param {"row" | "column"} direction
 * @param {HTMLElement} before
 * @param {HTMLElement} after
 */
function border(direction, before, after) {
  const isRow = direction === "row";
  const share = (/** @type {HTMLElement} */ part) => Number(part.dataset.share);
  const line = h("div", {
    class: "border", role: "separator", tabindex: 0, "aria-orientation": isRow ? "vertical" : "horizontal",
    "aria-label": `Border between ${nameOf(before)} and ${nameOf(after)}`, "aria-valuenow": 50, "aria-valuemin": 5, "aria-valuemax": 95,
  });
  const set = (/** @type {number} */ part) => {
    const all = share(before) + share(after);
    const bounded = Math.max(0.05, Math.min(0.95, part));
    for (const [element, size] of /** @type {[HTMLElement, number][]} */ ([[before, all * bounded], [after, all * (1 - bounded)]])) {
      element.dataset.share = String(size);
      element.style.flex = `${size} 1 0`;
    }
    line.setAttribute("aria-valuenow", String(Math.round(bounded * 100)));
  };
  const keep = () => {
    const sizes = stored();
    for (const part of [before, after]) sizes[/** @type {string} */ (part.dataset.key)] = share(part);
    localStorage.setItem(KEY, JSON.stringify(sizes));
  };
  const current = () => share(before) / (share(before) + share(after));
  line.addEventListener("pointerdown", (event) => {
    line.setPointerCapture(event.pointerId);
    const first = before.getBoundingClientRect();
    const last = after.getBoundingClientRect();
    const move = (/** @type {PointerEvent} */ moved) => {
      const [start, end, at] = isRow ? [first.left, last.right, moved.clientX] : [first.top, last.bottom, moved.clientY];
      set((at - start) / (end - start));
    };
    line.addEventListener("pointermove", move);
    line.addEventListener("pointerup", () => (line.removeEventListener("pointermove", move), keep()), { once: true });
  });
  line.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.03, ArrowUp: -0.03, ArrowRight: 0.03, ArrowDown: 0.03 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    set(current() + step);
    keep();
  });
  return line;
}

/** @param {HTMLElement} part */
function nameOf(part) {
  return part.getAttribute("aria-label") ?? part.querySelector("h2")?.textContent ?? "panes";
}

/**
 * Panes that share a place.
 * @param {string} label
 * @param {import("./pane.js").Pane[]} panes
 */
export function tabs(label, panes) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const place = h("div", { class: "tab-place" });
  const element = h("div", { class: "tabbed", "aria-label": label, role: "group" }, list, place);
  /** @type {HTMLElement[]} */
  const buttons = panes.map((pane) => {
    const tab = h("button", { type: "button", role: "tab", id: `tab-${pane.id}`, "aria-controls": pane.id }, pane.title);
    tab.addEventListener("click", () => show(pane.id));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = panes[(panes.indexOf(pane) + step + panes.length) % panes.length];
      show(next.id);
      document.getElementById(`tab-${next.id}`)?.focus();
    });
    pane.root.setAttribute("role", "tabpanel");
    pane.root.setAttribute("aria-labelledby", `tab-${pane.id}`);
    place.append(pane.root);
    return tab;
  });
  list.append(...buttons);
  /** @param {string} id */
  function show(id) {
    panes.forEach((pane, index) => {
      const isShown = pane.id === id;
      pane.root.hidden = !isShown;
      buttons[index].setAttribute("aria-selected", String(isShown));
      buttons[index].setAttribute("tabindex", isShown ? "0" : "-1");
    });
    element.dispatchEvent(new CustomEvent("tab", { detail: id }));
  }
  show(panes[0].id);
  return { element, show };
}
