// Values as a person reads them: the same words that the server's templates use.

const TIME_UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const texts = JSON.parse(document.getElementById("texts").textContent);

export function text(key, args = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => (name in args ? String(args[name]) : all));
}

// Three digits, without an exponent and without zeros at the end.
function short(value) {
  return value < 999.5 ? String(Number(value.toPrecision(3))) : grouped(value.toFixed(0));
}

function grouped(text) {
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function number(value) {
  if (typeof value === "string") return /^-?\d+$/.test(value) ? grouped(value) : value;
  if (Number.isInteger(value)) return grouped(String(value));
  const [whole, part] = value.toFixed(1).split(".");
  return `${grouped(whole)}.${part}`;
}

export function size(value) {
  let left = Number(value), unit = 0;
  while (left >= 1024 && unit < BYTE_UNITS.length - 1) { left /= 1024; unit += 1; }
  return `${unit === 0 || left >= 100 ? left.toFixed(0) : short(left)} ${BYTE_UNITS[unit]}`;
}

export function duration(value) {
  for (const [length, unit] of TIME_UNITS) if (value >= length) return `${short(value / length)} ${unit}`;
  return `${value < 10 ? short(Number(value)) : Number(value).toFixed(0)} ms`;
}

export function moment(value) {
  const when = new Date(Number(value));
  if (Number.isNaN(when.getTime())) return `${value} ms`;
  return `${when.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function percent(value) {
  return value < 0.1 ? `${(value * 100).toFixed(1)}%` : `${(value * 100).toFixed(0)}%`;
}

export function rate(value) {
  return `${Math.abs(value) >= 100 || Number.isInteger(value) ? grouped(value.toFixed(0)) : number(value)}/s`;
}

// What has no glyph is spelled out, so that no name can look like another or turn a line around.
export function visible(value, keep = "") {
  return String(value).replace(/[\p{C}\u2028\u2029]/gu, (char) => {
    if (keep.includes(char)) return char;
    const code = char.codePointAt(0);
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

export function shown(value, kind) {
  switch (kind) {
    case "number": return number(value);
    case "size": return size(value);
    case "size_rate": return `${size(value)}/s`;
    case "rate": return rate(value);
    case "duration": return duration(value);
    case "moment": return moment(value);
    case "hours": return duration(value * 3600000);
    case "percent": return percent(value);
    default: return visible(value);
  }
}
