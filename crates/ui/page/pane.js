// @ts-check
// A pane: a heading, tools, contents, a line that says what is wrong. While a pane waits for answers it keeps what it shows; it is dimmed after a
// moment, and only what truly takes long gets a spinner and a button that cancels it.

import { h, button, replace } from "./dom.js";
import { Cancelled, Disconnected } from "./api.js";

const DIM_AFTER = 90;
const SPIN_AFTER = 200;

/** @typedef {(method: string, params: object) => Promise<any>} Ask */

export class Pane {
  /**
   * @param {import("./api.js").Api} api
   * @param {string} id
   * @param {string} title
   * @param {...Node} tools
   */
  constructor(api, id, title, ...tools) {
    this.api = api;
    this.id = id;
    this.title = title;
    this.body = h("div", { class: "pane-body" });
    this.tools = h("div", { class: "pane-tools" }, ...tools);
    this.status = h("div", { class: "pane-status", role: "status" });
    this.spinner = h("div", { class: "spinner", hidden: true }, h("span", { class: "wheel" }), h("span", { class: "progress" }));
    this.spinner.append(button("Cancel", `Cancel what ${title} waits for`, () => this.cancel()));
    this.heading = h("h2", { id: `${id}-title` }, title);
    this.root = h(
      "section",
      { id, class: "pane", "aria-labelledby": `${id}-title` },
      h("div", { class: "pane-head" }, this.heading, this.tools),
      this.status,
      this.body,
      this.spinner,
    );
    /** @type {AbortController | undefined} */
    this.running = undefined;
    this.timers = [];
  }

  cancel() {
    this.running?.abort();
  }

  /**
   * Does something that asks questions. What was still being done is cancelled.
   * @param {(ask: Ask, signal: AbortSignal) => Promise<void>} work
   */
  async load(work) {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.settle();
    this.root.setAttribute("aria-busy", "true");
    this.timers = [
      setTimeout(() => this.root.classList.add("stale"), DIM_AFTER),
      setTimeout(() => (this.spinner.hidden = false), SPIN_AFTER),
    ];
    const onProgress = (/** @type {number} */ done, /** @type {number | null} */ total) => {
      this.progress(total ? `${Math.min(99, Math.floor((100 * done) / total))} %` : "");
    };
    /** @type {Ask} */
    const ask = (method, params) => this.api.ask(method, params, { signal: running.signal, onProgress });
    try {
      await work(ask, running.signal);
      if (this.running === running) this.say("");
    } catch (error) {
      if (this.running !== running) return;
      if (error instanceof Cancelled) this.say("Cancelled.");
      else if (!(error instanceof Disconnected)) this.say(/** @type {Error} */ (error).message);
    } finally {
      if (this.running === running) {
        this.running = undefined;
        this.settle();
        this.root.removeAttribute("aria-busy");
      }
    }
  }

  settle() {
    this.timers.forEach(clearTimeout);
    this.root.classList.remove("stale");
    this.spinner.hidden = true;
    this.progress("");
  }

  /**
   * Says how far it is, to whoever waits.
   * @param {string} text
   */
  progress(text) {
    /** @type {HTMLElement} */ (this.spinner.querySelector(".progress")).textContent = text;
  }

  /** @param {string} text */
  say(text) {
    replace(this.status, text);
    this.status.hidden = text === "";
  }
}
