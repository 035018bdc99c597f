// @ts-check
// The notebook: moments noted as values are followed, and by hand, with what somebody writes about them. It is saved beside the recording, and can be
// saved as Markdown.

import { h, button, replace } from "../dom.js";
import { Pane } from "../pane.js";
import { count } from "../format.js";
import { hashOf } from "../moment.js";

const SAVE_AFTER = 600;

/** @typedef {{process: number, time: number, thread?: number, title: string, place?: string, text?: string, is_kept?: boolean}} Note */

export class NotebookPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "notebook", "Notebook");
    this.app = app;
    /** @type {Note[]} */
    this.notes = [];
    this.revision = 0;
    this.state = h("span", { class: "quiet", role: "status" });
    this.tools.append(
      this.state,
      button("Note this moment", "Note this moment (m)", () => this.noteNow()),
      button("Markdown", "Save the notebook as Markdown", () => this.exportMarkdown()),
    );
    this.list = h("ol", { class: "notes" });
    this.hint = h("p", { class: "empty" }, "Moments are noted here as you follow values. m notes the current one.");
    this.body.append(this.hint, this.list);
  }

  async open() {
    const notebook = await this.api.ask("notebook.read", {});
    this.revision = notebook.revision;
    this.notes = notebook.notes;
    this.show();
  }

  /**
   * Notes a moment.
   * @param {Note} note
   */
  add(note) {
    const same = this.notes.find((other) => other.time === note.time && other.process === note.process && other.title === note.title);
    if (same) return;
    this.notes.push(note);
    this.show();
    this.saveLater();
  }

  noteNow() {
    const { now } = this.app.here;
    this.add({ process: now.process, time: now.time, thread: now.thread, title: `Moment ${count(now.time)}`, place: this.app.placeNow(), text: "", is_kept: true });
    this.app.timeline.note({ kind: "note", time: now.time, thread: now.thread, title: "Noted", place: this.app.placeNow() });
    this.app.showTab("notebook");
    /** @type {HTMLElement | null} */ (this.list.lastElementChild?.querySelector("textarea") ?? null)?.focus();
  }

  show() {
    this.hint.hidden = this.notes.length > 0;
    replace(
      this.list,
      this.notes.map((note, index) => {
        const text = /** @type {HTMLTextAreaElement} */ (
          h("textarea", { rows: 1, "aria-label": `Note about ${note.title}`, placeholder: "What is to be seen here?" }, note.text ?? "")
        );
        text.addEventListener("input", () => {
          note.text = text.value;
          this.saveLater();
        });
        const go = () => this.app.here.go({ process: note.process, time: note.time, thread: note.thread, why: note.title });
        return h(
          "li",
          {},
          h("div", { class: "note-head" }, button(note.title, `Go to ${note.title}`, go, { class: "link title" }), h("span", { class: "quiet" }, ` ${note.place ?? ""} · ${count(note.time)} `), button("×", `Remove the note ${note.title}`, () => this.remove(index), { class: "icon" })),
          text,
        );
      }),
    );
  }

  /** @param {number} index */
  remove(index) {
    this.notes.splice(index, 1);
    this.show();
    this.saveLater();
  }

  saveLater() {
    this.state.textContent = "Not saved yet";
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_AFTER);
  }

  async save() {
    try {
      const { revision } = await this.api.ask("notebook.write", { revision: this.revision, notes: this.notes });
      this.revision = revision;
      this.state.textContent = "Saved";
      this.say("");
    } catch (error) {
      if (/** @type {any} */ (error).kind === "notebook_changed") return this.merge();
      this.state.textContent = "Not saved";
      this.say(/** @type {Error} */ (error).message);
    }
  }

  /** Another page has saved: what both have is kept. */
  async merge() {
    const mine = this.notes;
    const theirs = await this.api.ask("notebook.read", {});
    this.revision = theirs.revision;
    this.notes = theirs.notes;
    for (const note of mine) {
      const same = this.notes.find((other) => other.time === note.time && other.process === note.process && other.title === note.title);
      if (same) same.text = note.text || same.text;
      else this.notes.push(note);
    }
    this.show();
    this.saveLater();
  }

  markdown() {
    const { run } = this.app;
    const lines = [`# ${escaped(run.command.join(" "))}`, "", `Recording \`${run.recording.replace(/`/g, "'")}\``, ""];
    for (const note of this.notes) {
      lines.push(`- **${escaped(note.title)}** — time ${count(note.time)}${note.place ? `, ${escaped(note.place)}` : ""}`);
      if (note.text) lines.push(...note.text.split("\n").map((line) => `  ${escaped(line)}`));
      lines.push(`  \`${hashOf({ process: note.process, time: note.time, thread: note.thread, frame: 0 })}\``);
    }
    return lines.join("\n") + "\n";
  }

  exportMarkdown() {
    const url = URL.createObjectURL(new Blob([this.markdown()], { type: "text/markdown" }));
    const link = h("a", { download: "notebook.md" });
    /** @type {HTMLAnchorElement} */ (link).href = url;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}

/**
 * A text that means itself in Markdown.
 * @param {string} text
 */
function escaped(text) {
  return text.replace(/[\\`*_{}[\]<>#|]/g, "\\$&");
}
