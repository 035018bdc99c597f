// @ts-check
// Values as a tree: roots are expressions, parts come when somebody unfolds them. The tree remembers what is unfolded and what values were at the
// moment before, so that it can be shown for any moment.

import { partExpression } from "../expressions.js";

/** Parts that are shown at first, and added each time. */
const PARTS = 100;

/**
 * @typedef {"watch" | "local" | "global"} Group
 * @typedef {{name: string, type: string, text: string, address?: string, size?: number, part_count: number, parts?: ValueNode[]}} ValueNode
 * @typedef {{key: string, root: string, path: number[], depth: number, node: ValueNode, expression: string, isChanged: boolean, canExpand: boolean, isExpanded: boolean, group: Group, isError?: boolean, more?: number}} ValueRow
 */

export class ValueTree {
  constructor() {
    /** What is unfolded, and how many parts of it. @type {Map<string, number>} */
    this.expanded = new Map();
    /** @type {Map<string, string>} */
    this.texts = new Map();
    /** @type {Map<string, string>} */
    this.oldTexts = new Map();
  }

  /** The values are about to be those of another moment. */
  moved() {
    this.oldTexts = this.texts;
    this.texts = new Map();
  }

  /**
   * The rows of a value and of all its unfolded parts.
   * @param {import("../pane.js").Ask} ask
   * @param {object} at
   * @param {string} root
   * @param {ValueNode} node
   * @param {Group} group
   * @returns {Promise<ValueRow[]>}
   */
  async rowsOf(ask, at, root, node, group) {
    return this.rowsBelow(ask, at, root, [], 0, node, root, group);
  }

  /**
   * @param {import("../pane.js").Ask} ask
   * @param {object} at
   * @param {string} root
   * @param {number[]} path
   * @param {number} depth
   * @param {ValueNode} node
   * @param {string} expression
   * @param {Group} group
   * @returns {Promise<ValueRow[]>}
   */
  async rowsBelow(ask, at, root, path, depth, node, expression, group) {
    const key = `${group}:${root}/${path.join("/")}`;
    const old = this.oldTexts.get(key);
    this.texts.set(key, node.text);
    const shown = this.expanded.get(key);
    const isExpanded = shown !== undefined && node.part_count > 0;
    /** @type {ValueRow} */
    const row = {
      key, root, path, depth, node, expression, group, isExpanded,
      isChanged: old !== undefined && old !== node.text,
      canExpand: node.part_count > 0,
    };
    if (!isExpanded) return [row];
    /** @type {ValueNode[]} */
    let parts = [];
    let inner = path;
    let owner = expression;
    let total = node.part_count;
    try {
      const whole = await ask("expand", { ...at, expression: root, path, limit: Math.min(1000, shown) });
      parts = whole.parts ?? [];
      const [only] = parts;
      // A pointer unfolds to the members of what it points to.
      if (parts.length === 1 && only.name === "*" && only.part_count > 0) {
        inner = [...path, 0];
        owner = partExpression(expression, "*");
        total = only.part_count;
        const target = await ask("expand", { ...at, expression: root, path: inner, limit: Math.min(1000, shown) });
        parts = target.parts ?? [];
      }
    } catch (error) {
      return [row, { ...row, key: key + "!", depth: depth + 1, canExpand: false, isExpanded: false, isError: true, node: { ...node, name: "", text: /** @type {Error} */ (error).message, part_count: 0, address: undefined } }];
    }
    const below = await Promise.all(
      parts.map((part, index) =>
        this.rowsBelow(ask, at, root, [...inner, index], depth + 1, part, partExpression(owner, part.name), group),
      ),
    );
    const rows = [row, ...below.flat()];
    if (parts.length < total && parts.length < 1000) {
      rows.push({ ...row, key: key + "+", depth: depth + 1, canExpand: false, isExpanded: false, more: total - parts.length });
    }
    return rows;
  }

  /** @param {ValueRow} row */
  toggle(row) {
    if (this.expanded.has(row.key)) this.expanded.delete(row.key);
    else this.expanded.set(row.key, PARTS);
  }

  /** @param {ValueRow} row a row that stands for parts that are not shown */
  showMore(row) {
    const key = row.key.slice(0, -1);
    this.expanded.set(key, (this.expanded.get(key) ?? PARTS) + 5 * PARTS);
  }
}
