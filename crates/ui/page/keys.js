// @ts-check
// The keyboard: one table of keys, which is also what the help shows. Keys do nothing while somebody types.

/** @typedef {{keys: string[], what: string, group: string, run: () => void}} Binding */

export class Keys {
  constructor() {
    /** @type {Binding[]} */
    this.bindings = [];
    document.addEventListener("keydown", (event) => this.press(event));
  }

  /**
   * @param {string} group
   * @param {string | string[]} keys
   * @param {string} what
   * @param {() => void} run
   */
  add(group, keys, what, run) {
    this.bindings.push({ keys: [keys].flat(), what, group, run });
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const isTyping = target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
    if (isTyping || document.querySelector("dialog[open]")) return;
    const binding = this.bindings.find(({ keys }) => keys.includes(event.key));
    if (!binding) return;
    // Enter and space belong to what has the focus.
    event.preventDefault();
    binding.run();
  }
}
