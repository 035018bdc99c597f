// @ts-check
// Expressions of the program's language: what somebody points at, and what parts of values are called.

/** Words that are no variables. */
const KEYWORDS = new Set(
  ("if else for while do switch case default return break continue goto sizeof struct union enum class static const void int long " +
    "short char unsigned signed float double bool auto let mut fn impl match pub use mod namespace template typename new delete this").split(" "),
);

/**
 * The expression that ends with the name at a place of a line: `account->branch` for a place in `branch`.
 * @param {string} line
 * @param {number} at
 */
export function expressionAt(line, at) {
  const isName = (/** @type {string | undefined} */ character) => character !== undefined && /[\w$]/.test(character);
  let start = at;
  let end = at;
  while (isName(line[start - 1])) start--;
  while (isName(line[end])) end++;
  const name = line.slice(start, end);
  if (!/^[A-Za-z_$]/.test(name) || KEYWORDS.has(name)) return "";
  // A call has no value without calling it.
  if (/^\s*\(/.test(line.slice(end))) return "";
  for (;;) {
    const before = line.slice(0, start);
    const link = /(->|\.|::)$/.exec(before);
    if (!link) break;
    const rest = before.slice(0, -link[0].length);
    const owner = /([A-Za-z_$][\w$]*)((?:\[[^\][]*\])*)$/.exec(rest);
    if (!owner) return "";
    start = owner.index;
  }
  const expression = line.slice(start, end);
  return expression.length < 200 ? expression : "";
}

/**
 * What a part of a value is called in the program's language.
 * @param {string} whole
 * @param {string} part its name: a member, `[3]`, `*`
 */
export function partExpression(whole, part) {
  if (part === "*") return `*${wrap(whole)}`;
  if (part.startsWith("[")) return `${wrap(whole)}${part}`;
  if (part === "") return whole;
  if (whole.startsWith("*") && !whole.startsWith("**")) {
    const pointer = whole.slice(1);
    return `${/^[\w$.>[\]-]+$/.test(pointer) ? pointer : wrap(pointer)}->${part}`;
  }
  return `${wrap(whole)}.${part}`;
}

/** @param {string} expression */
function wrap(expression) {
  return /^[\w$.:>[\]-]+$/.test(expression) || /^\(.*\)$/.test(expression) ? expression : `(${expression})`;
}
