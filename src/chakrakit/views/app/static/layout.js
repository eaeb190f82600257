// Which rows there are, and where: folds of ranks, their tracks when open, their ranks when split.
import { sizeText } from "./format.js";
import { state } from "./state.js";

export const STRIP = 30, LINE = 17, PAD = 6, LABEL = 210, RULER = 26;

export const keyOf = (side, rank) => `${side}.${rank}`;

// `known` maps keys to layouts of ranks that were read.
export function layout(session, known) {
  const rows = [];
  let y = 0;
  const add = (row, height) => { rows.push({ ...row, y, height }); y += height; };
  const addRank = (side, rank, label, count) => {
    const key = keyOf(side, rank), open = state.open.has(key), split = count > 1 && state.split.has(key);
    add({ type: "rank", side, rank, key, label: split ? `rank ${rank}` : label, count, open, split }, STRIP + PAD);
    if (open) addTracks(side, rank, key);
    if (split) (known.get(key)?.ranks || []).slice(1).forEach((r) => addRank(side, r, `rank ${r}`, 1));
  };
  const addTracks = (side, rank, key) => {
    const found = known.get(key);
    if (!found) return add({ type: "wait", side, rank, key, label: "reading …" }, LINE + PAD);
    if (!found.tracks.length) add({ type: "wait", side, rank, key, label: "nothing ran" }, LINE + PAD);
    if (found.too_deep) add({ type: "wait", side, rank, key, label: `${found.too_deep.toLocaleString("en")} nodes nested too deep` }, LINE + PAD);
    if (found.memory) add({ type: "memory", side, rank, key, peak: found.memory, label: `memory, up to ${sizeText(found.memory)}` }, 2 * LINE + PAD);
    found.tracks.forEach((track, number) =>
      add({ type: "track", side, rank, key, track: number, label: track.title, depth: track.depth }, track.depth * LINE + PAD));
  };
  folds(session).forEach(({ side, fold: [first, count, text] }) => addRank(side, first, text, count));
  return { rows, height: y };
}

// Of two runs, the same ranks one above the other.
function folds(session) {
  const all = session.sides.flatMap((s, side) => s.folds.map((fold) => ({ side, fold })));
  return all.sort((a, b) => a.fold[0] - b.fold[0] || a.side - b.side);
}

// The row at a height, by halving.
export function rowAt(rows, y) {
  let low = 0, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle].y <= y) low = middle; else high = middle - 1;
  }
  const row = rows[low];
  return row && y >= row.y && y < row.y + row.height ? row : null;
}

export function visibleRows(rows, top, bottom) {
  const out = [];
  if (!rows.length) return out;
  let low = 0, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height > top) high = middle; else low = middle + 1;
  }
  for (let i = low; i < rows.length && rows[i].y < bottom; i++) out.push(rows[i]);
  return out;
}
