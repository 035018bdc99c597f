// @ts-check
// How numbers, times and places are written.

/** @typedef {{path: string, line: number, column?: number}} SourceLine */
/** @typedef {{address: string, function?: string, offset?: number, module?: string, source?: SourceLine}} Place */

const digits = new Intl.NumberFormat("en-US");

/** @param {number} number */
export function count(number) {
  return digits.format(number);
}

/**
 * A count that fits into a margin: 12.3k, 4.5M.
 * @param {number} number
 */
export function shortCount(number) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["G", 1e9], ["M", 1e6], ["k", 1e3]])) {
    if (number >= size * 10) return Math.floor(number / size) + unit;
    if (number >= size) return (Math.floor((number * 10) / size) / 10).toFixed(1) + unit;
  }
  return String(number);
}

/**
 * The last part of a path.
 * @param {string | undefined} path
 */
export function baseName(path) {
  return path ? path.slice(path.lastIndexOf("/") + 1) : "";
}

/**
 * A function and a line, for people.
 * @param {{function?: string, source?: SourceLine, pc?: string, address?: string, module?: string, offset?: number} | undefined} place
 */
export function placeText(place) {
  if (!place) return "";
  const name = place.function ?? place.address ?? place.pc ?? "?";
  if (place.source) return `${name} at ${baseName(place.source.path)}:${place.source.line}`;
  return place.module ? `${name} in ${baseName(place.module)}` : name;
}

/**
 * The name of a function without its parameters.
 * @param {string} name
 */
export function shortFunction(name) {
  return name.length > 60 ? name.slice(0, 57) + "…" : name;
}

/**
 * Arguments of a call in one line.
 * @param {{name: string, value: string}[] | undefined} list
 */
export function argumentText(list) {
  return (list ?? []).map(({ name, value }) => `${name}=${value}`).join(", ");
}

/**
 * A number that somebody typed as a time: 1500000, 1,500,000, 1.5M, 50%.
 * @param {string} text
 * @param {{start: number, end: number}} range
 * @returns {number | undefined}
 */
export function parseTime(text, range) {
  const match = /^(\d[\d_,]*(?:\.\d+)?)\s*([kmg%]?)$/i.exec(text.trim());
  if (!match) return undefined;
  const number = Number(match[1].replace(/[_,]/g, ""));
  const unit = match[2].toLowerCase();
  if (unit === "%") return Math.round(range.start + ((range.end - range.start) * number) / 100);
  const size = { k: 1e3, m: 1e6, g: 1e9 }[unit] ?? 1;
  return Math.round(number * size);
}

/**
 * What bytes mean as a number of a type, if they do.
 * @param {string} hex two digits a byte, the lowest address first
 * @param {string} type
 * @returns {number | bigint | undefined}
 */
export function decodeNumber(hex, type) {
  const size = hex.length / 2;
  const bytes = Uint8Array.from({ length: size }, (_, index) => parseInt(hex.slice(2 * index, 2 * index + 2), 16));
  const view = new DataView(bytes.buffer);
  if (/[[({]/.test(type)) return undefined;
  if (/\*$|&$/.test(type)) return size === 8 ? view.getBigUint64(0, true) : undefined;
  if (/^(const |volatile )*(struct|union|class) /.test(type)) return undefined;
  if (/\b(float|f32)\b/.test(type) && size === 4) return view.getFloat32(0, true);
  if (/\b(double|f64)\b/.test(type) && size === 8) return view.getFloat64(0, true);
  const isNumber = /\b(int|long|short|char|bool|_Bool|u?int\d+_t|s?size_t|u?intptr_t|off_t|time_t|[iu](8|16|32|64|size)|unsigned|signed|enum)\b/;
  if (!isNumber.test(type)) return undefined;
  const isUnsigned = /\bunsigned\b|\bu(int)?(8|16|32|64|size|ptr)|\bsize_t\b|bool/i.test(type);
  switch (size) {
    case 1: return isUnsigned ? view.getUint8(0) : view.getInt8(0);
    case 2: return isUnsigned ? view.getUint16(0, true) : view.getInt16(0, true);
    case 4: return isUnsigned ? view.getUint32(0, true) : view.getInt32(0, true);
    case 8: {
      const number = isUnsigned ? view.getBigUint64(0, true) : view.getBigInt64(0, true);
      return Number.isSafeInteger(Number(number)) ? Number(number) : number;
    }
    default: return undefined;
  }
}

/**
 * Bytes as characters, those that are none as dots.
 * @param {string} hex
 */
export function asciiOf(hex) {
  let text = "";
  for (let at = 0; at < hex.length; at += 2) {
    const byte = parseInt(hex.slice(at, at + 2), 16);
    text += byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·";
  }
  return text;
}

/**
 * A name in a query, without the meaning of its characters.
 * @param {string} name
 */
export function quoted(name) {
  return `"${name.replace(/[\\"*?]/g, "\\$&")}"`;
}
