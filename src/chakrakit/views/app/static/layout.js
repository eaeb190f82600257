// Which rows there are, and where: folds of ranks, their tracks when open, their ranks when split.
import { figureText } from "./format.js";
import { state } from "./state.js";

export const STRIP = 30, LINE = 17, PAD = 6, LABEL = 210, MINI = 22, RULER = MINI + 26;

export const keyOf = (side, rank) => `${side}.${rank}`;

// `known` maps keys to layouts of ranks that were read. `band` is the height of pinned rows, which come first.
export function layout(session, known) {
  const pinned = pinnedRows(known), band = pinned.reduce((sum, row) => sum + row.height, 0);
  const rows = [];
  let y = 0;
  const add = (row, height) => {
    if (state.pinned.has(row.pin)) return;
    rows.push({ ...row, y, height });
    y += height;
  };
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
    const tracks = (host) => found.tracks.forEach((track, number) => { if (track.host === host) add(...trackRow(side, rank, found, number)); });
    tracks(false); // what the device does, its figures, and then threads and requests, of which there are many
    found.figures.forEach((_, number) => add(...figureRow(side, rank, found, number)));
    tracks(true);
  };
  folds(session).forEach(({ side, fold: [first, count, text] }) => addRank(side, first, text, count));
  return { rows, pinned, band, height: y };
}

// A row and its height.
function figureRow(side, rank, found, number) {
  const { title, unit, peak, limit } = found.figures[number], key = keyOf(side, rank);
  const share = limit ? ` (${Math.round((100 * peak) / limit)} %)` : "";
  return [{ type: "figure", side, rank, key, pin: `${key}.f${number}`, figure: number, unit, peak, label: title, note: `up to ${figureText(peak, unit)}${share}` }, 2 * LINE + PAD];
}

function trackRow(side, rank, found, number) {
  const { title, depth } = found.tracks[number], key = keyOf(side, rank);
  return [{ type: "track", side, rank, key, pin: `${key}.t${number}`, track: number, label: title, depth }, depth * LINE + PAD];
}

// Pinned tracks and figures, one below the other in the order of pinning; those of ranks not read yet wait.
function pinnedRows(known) {
  let y = 0;
  return [...state.pinned].flatMap((pin) => {
    const [, side, rank, kind, number] = /^(\d+)\.(\d+)\.([tf])(\d+)$/.exec(pin), found = known.get(keyOf(side, rank));
    const lines = kind === "t" ? found?.tracks : found?.figures;
    if (!lines?.[number]) return found ? [] : [wait(+side, +rank, pin, (y += LINE + PAD) - LINE - PAD)];
    const [row, height] = (kind === "t" ? trackRow : figureRow)(+side, +rank, found, +number);
    y += height;
    return [{ ...row, y: y - height, height, fixed: true, label: `${rank}: ${row.label}` }];
  });
}

const wait = (side, rank, pin, y) => ({ type: "wait", side, rank, key: keyOf(side, rank), pin, y, height: LINE + PAD, fixed: true, label: "reading …" });

// Of two runs that are compared, the same ranks one above the other.
function folds(session) {
  const all = session.sides.flatMap((s, side) => s.folds.map((fold) => ({ side, fold })));
  if (session.together) return all; // jobs one after the other
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
