// @ts-check
// Source files, in pieces as they are looked at: some have hundreds of thousands of lines.

import { ApiError } from "./api.js";

/** Lines that are asked for at once. */
const PIECE = 2000;

/** A file that can be read, as far as it was. */
export class SourceText {
  /** @param {any} answer */
  constructor(answer) {
    /** @type {string} */
    this.path = answer.path;
    /** @type {string} */
    this.found = answer.found;
    /** @type {boolean} */
    this.isNewer = answer.is_newer;
    /** @type {number} */
    this.lineCount = answer.line_count;
    /** @type {Map<number, string[]>} */
    this.pieces = new Map();
  }

  /** @param {number} line from 1 on */
  line(line) {
    return this.pieces.get(pieceOf(line))?.[(line - 1) % PIECE];
  }
}

/** The files of a run. */
export class Sources {
  /** @param {import("./moment.js").Here} here */
  constructor(here) {
    this.here = here;
    /** Files by their names, and why they cannot be read. @type {Map<string, SourceText | ApiError>} */
    this.files = new Map();
  }

  /**
   * A file, with a line of it and those around.
   * @param {import("./pane.js").Ask} ask
   * @param {string} path
   * @param {number} line from 1 on
   * @returns {Promise<SourceText>}
   */
  async open(ask, path, line) {
    const known = this.files.get(path);
    if (known instanceof ApiError) throw known;
    const piece = pieceOf(line);
    if (known?.pieces.has(piece)) return known;
    try {
      const answer = await ask("source.read", { ...this.here.at(), path, first: piece * PIECE + 1, count: PIECE });
      const text = known ?? new SourceText(answer);
      text.pieces.set(piece, answer.lines);
      this.files.set(path, text);
      return text;
    } catch (error) {
      if (error instanceof ApiError && error.kind) this.files.set(path, error);
      throw error;
    }
  }

  /**
   * Whether a file can be read.
   * @param {import("./pane.js").Ask} ask
   * @param {string} path
   * @param {number} line a line that will be wanted if so
   */
  async canRead(ask, path, line) {
    return this.open(ask, path, line).then(() => true, () => false);
  }
}

/** @param {number} line */
function pieceOf(line) {
  return Math.floor(Math.max(0, line - 1) / PIECE);
}
