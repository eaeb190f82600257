// Figures for people.
const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]];

export function timeText(ns) {
  const [unit, size] = UNITS.find(([, size]) => Math.abs(ns) >= size) || ["ns", 1];
  return `${(ns / size).toLocaleString("en", { maximumFractionDigits: size === 1 ? 0 : 2 })} ${unit}`;
}

// The time at a tick of an axis: as many digits as tell neighbors apart.
export function tickText(ns, step) {
  if (!ns) return "0";
  const [unit, size] = UNITS.find(([, size]) => Math.abs(ns) >= size) || ["ns", 1];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(ns / size).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}

const SIZES = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];

export function sizeText(bytes) {
  const [unit, size] = SIZES.find(([, size]) => bytes >= size) || ["B", 1];
  return `${(bytes / size).toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}`;
}

// A figure with its unit, as counters name it.
export function figureText(value, unit) {
  if (unit === "bytes") return sizeText(value);
  if (unit === "bytes/s") return `${(value / 1e9).toLocaleString("en", { maximumFractionDigits: 1 })} GB/s`;
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`;
}

export const countText = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
