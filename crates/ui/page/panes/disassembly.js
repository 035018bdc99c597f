// @ts-check
// The instructions of the frame, beside its source.

import { Pane } from "../pane.js";
import { VirtualList, cell } from "../virtual-list.js";
import { baseName } from "../format.js";

export class DisassemblyPane extends Pane {
  /** @param {import("../main.js").App} app */
  constructor(app) {
    super(app.api, "disassembly", "Disassembly");
    this.app = app;
    /** @type {any[]} */
    this.instructions = [];
    this.pc = "";
    this.list = new VirtualList({
      label: "Instructions",
      class: "code",
      rowHeight: 19,
      render: (index, row) => this.render(index, row),
      onActivate: (index) => app.table.showAddress(this.instructions[index].address, this.instructions[index].text),
    });
    this.body.append(this.list.element);
  }

  /** @param {any} frame */
  update(frame) {
    this.frame = frame;
    if (this.root.hidden || !frame) return;
    this.show(frame.pc);
  }

  /** @param {string} pc */
  show(pc) {
    const { here } = this.app;
    this.load(async (ask) => {
      this.instructions = await ask("disassemble", { ...here.at(), address: pc, before: 120, count: 200 });
      this.pc = pc;
      const current = this.instructions.findIndex((instruction) => instruction.address === pc);
      this.list.setCount(this.instructions.length);
      this.list.setActive(current, "center");
      this.heading.textContent = this.instructions[current]?.function ?? "Disassembly";
    });
  }

  /**
   * @param {number} index
   * @param {HTMLElement} row
   */
  render(index, row) {
    const instruction = this.instructions[index];
    const before = this.instructions[index - 1];
    const isNewLine = instruction.source && (instruction.source.line !== before?.source?.line || instruction.source.path !== before?.source?.path);
    row.classList.toggle("current", instruction.address === this.pc);
    row.append(
      cell("line-number", isNewLine ? String(instruction.source.line) : ""),
      cell("address", instruction.address),
      cell("text", instruction.text),
    );
    row.title = `${instruction.function ?? ""}+${instruction.offset ?? 0}\n${instruction.bytes}\n${instruction.source ? `${baseName(instruction.source.path)}:${instruction.source.line}` : ""}`;
  }
}
