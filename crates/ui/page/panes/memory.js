// @ts-check
// Memory as bytes: what a value lies in, and what is around it. Bytes that changed since the moment before are marked; a click on one goes to
// its last write.

import { h, button, replace } from "../dom.js";
import { Pane } from "../pane.js";
import { asciiOf } from "../format.js";

const WIDTH = 16;
const LINES = 24;

export class MemoryPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "memory", "Memory");
    this.app = app;
    this.address = 0n;
    this.subject = { start: 0n, size: 0, name: "" };
    this.input = /** @type {HTMLInputElement} */ (
      h("input", { id: "address", type: "text", placeholder: "Address or expression", "aria-label": "Address or expression", autocomplete: "off", spellcheck: "false" })
    );
    this.input.addEventListener("keydown", (event) => event.key === "Enter" && this.find(this.input.value.trim()));
    this.tools.append(
      this.input,
      button("▲", "Lower addresses", () => this.move(-LINES / 2)),
      button("▼", "Higher addresses", () => this.move(LINES / 2)),
    );
    this.table = h("div", { class: "hex code", tabindex: 0, role: "group", "aria-label": "Bytes" });
    this.table.addEventListener("keydown", (event) => {
      const step = { PageDown: LINES - 2, PageUp: 2 - LINES, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step === undefined || event.target !== this.table) return;
      event.preventDefault();
      this.move(step);
    });
    this.table.addEventListener("wheel", (event) => {
      if (event.ctrlKey) return;
      event.preventDefault();
      this.move(Math.sign(event.deltaY) * 3);
    }, { passive: false });
    this.body.append(this.table);
    /** @type {Map<string, string>} */
    this.old = new Map();
  }

  /**
   * @param {string} address
   * @param {string} name
   * @param {number} size
   */
  open(address, name, size) {
    this.app.showTab("memory");
    const start = BigInt(address);
    this.subject = { start, size, name };
    this.input.value = name;
    this.address = start - (start % BigInt(WIDTH));
    this.update({ timeMoved: false });
  }

  /** @param {string} text */
  find(text) {
    if (!text) return;
    if (/^0x[0-9a-f]{1,16}$/i.test(text)) return this.open(text, text, 1);
    this.load(async (ask) => {
      const value = await ask("evaluate", { ...this.app.here.inFrame(), expression: text });
      const pointer = /0x[0-9a-f]+/.exec(value.text)?.[0];
      const address = /[*&]$/.test(value.type) && pointer ? pointer : value.address;
      if (!address) throw new Error(`${text} is not in memory`);
      queueMicrotask(() => this.open(address, text, value.size ?? 1));
    });
  }

  /** @param {number} lines */
  move(lines) {
    const next = this.address + BigInt(lines * WIDTH);
    this.address = next < 0n ? 0n : next;
    this.update({ timeMoved: false });
  }

  /** @param {{timeMoved: boolean}} change */
  update(change) {
    if (this.root.hidden || this.address === 0n) return;
    this.load(async (ask) => {
      const memory = await ask("memory.read", { ...this.app.here.at(), address: "0x" + this.address.toString(16), length: WIDTH * LINES });
      const isMapped = (/** @type {bigint} */ at) =>
        memory.mapped.some((/** @type {any} */ part) => BigInt(part.start) <= at && at < BigInt(part.end));
      const seen = new Map();
      const rows = [];
      for (let line = 0; line < LINES; line++) {
        const start = this.address + BigInt(line * WIDTH);
        const bytes = memory.bytes.slice(line * WIDTH * 2, (line + 1) * WIDTH * 2);
        const cells = [];
        for (let at = 0; at < bytes.length; at += 2) {
          const address = start + BigInt(at / 2);
          const name = "0x" + address.toString(16);
          const byte = bytes.slice(at, at + 2);
          if (!isMapped(address)) {
            cells.push(h("span", { class: "byte unmapped" }, "··"));
            continue;
          }
          seen.set(name, byte);
          const { start: from, size } = this.subject;
          const isSubject = address >= from && address < from + BigInt(size);
          const isChanged = change.timeMoved && this.old.has(name) && this.old.get(name) !== byte;
          const go = () => this.app.follow({ expression: `the byte at ${name}`, text: `0x${byte}`, address: name, size: 1 });
          cells.push(button(byte, `Byte ${byte} at ${name}. Go to its last write`, go, { class: `byte${isSubject ? " subject" : ""}${isChanged ? " changed" : ""}`, tabindex: -1 }));
        }
        rows.push(h("div", { class: "hex-row" }, h("span", { class: "address" }, "0x" + start.toString(16)), h("span", { class: "bytes" }, cells), h("span", { class: "ascii" }, asciiOf(bytes))));
      }
      this.old = seen;
      replace(this.table, rows);
    });
  }
}
