// @ts-check
// Elements without markup: everything that a guest, a file or a user wrote reaches the page as text nodes and attributes that cannot
// run anything. No other module creates elements in another way.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/** Attributes that are set as they are; everything else must be listed here before it can be used. */
const ATTRIBUTES = new Set([
  "id", "class", "title", "role", "tabindex", "type", "value", "placeholder", "for", "name", "hidden", "disabled", "checked",
  "autocomplete", "spellcheck", "rows", "min", "max", "step", "scope", "download", "colspan", "open", "label",
  "viewBox", "preserveAspectRatio", "points", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "d",
]);

/**
 * An element with properties and children. Functions named `onclick` and so on become listeners.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), properties, children));
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), properties, children));
}

/**
 * @param {Element} element
 * @param {Record<string, any>} properties
 * @param {any[]} children
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (ATTRIBUTES.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      element.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new Error(`no attribute ${name}`);
    }
  }
  append(element, children);
  return element;
}

/**
 * @param {Node} element
 * @param {any[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.appendChild(child);
    else if (child !== null && child !== undefined && child !== false) {
      element.appendChild(document.createTextNode(String(child)));
    }
  }
}

/**
 * Replaces everything within an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * A button with a label for people who see it and one for people who hear it.
 * @param {string} text
 * @param {string} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Record<string, any>} [properties]
 */
export function button(text, label, onclick, properties = {}) {
  return /** @type {HTMLButtonElement} */ (
    h("button", { type: "button", title: label, "aria-label": label, onclick, ...properties }, text)
  );
}

/**
 * Says something to people who cannot see it.
 * @param {string} text
 */
export function announce(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}
