// Figures for people.
const HOUR = 3600e9, DAY = 24 * HOUR;
const UNITS = [["d", DAY], ["h", HOUR], ["s", 1e9], ["ms", 1e6], ["µs", 1e3]];
const unitOf = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) || ["ns", 1];

// A step of an axis that is no shorter than this: of hours and days as clocks have them, else 1, 2 or 5 of ten.
export function tickStep(rough) {
  const whole = [1, 2, 6, 12, 24].map((n) => n * HOUR).find((s) => s >= rough && rough > HOUR / 4);
  if (whole) return whole;
  const unit = rough > DAY ? DAY : 1, base = 10 ** Math.floor(Math.log10(rough / unit));
  return Math.max([1, 2, 5, 10].map((f) => f * base * unit).find((s) => s >= rough), 1);
}

export function timeText(ns) {
  const [unit, size] = unitOf(ns);
  return `${(ns / size).toLocaleString("en", { maximumFractionDigits: size === 1 ? 0 : 2 })} ${unit}`;
}

// The time at a tick of an axis: as many digits as tell neighbors apart.
export function tickText(ns, step) {
  if (!ns) return "0";
  const [unit, size] = unitOf(ns);
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
