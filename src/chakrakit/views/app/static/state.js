// What is shown. All of it stands in the address after #, so that a link restores it.
export const state = {
  from: 0, to: 0, // ns since the run's begin; to = 0: not known yet
  open: new Set(), // "side.rank" whose tracks are shown
  split: new Set(), // "side.rank" of folds whose ranks are listed
  pinned: new Set(), // "side.rank.t3" or ".f0": tracks and figures that stay at the top
  selected: null, // {side, rank, row}
  tab: "Timeline",
  side: 0, // of the tabs
  query: "",
  path: false,
  diff: false,
  paint: "kind", // kind, class or name
  edits: [], // texts, as chakra transform and simulate take them
  editing: false, // whether the panel of edits is open
  top: 0, // px scrolled down
};

const listeners = [];
export const onChange = (act) => listeners.push(act);

export function change(given) {
  Object.assign(state, given);
  listeners.forEach((act) => act(given));
  remember();
}

let timer = 0;
function remember() {
  clearTimeout(timer);
  timer = setTimeout(() => history.replaceState(null, "", "#" + written()), 150);
}

export function written() {
  const out = new URLSearchParams();
  if (state.to) out.set("t", `${Math.round(state.from)},${Math.round(state.to)}`);
  if (state.open.size) out.set("open", [...state.open].join(","));
  if (state.pinned.size) out.set("pin", [...state.pinned].join(","));
  if (state.split.size) out.set("split", [...state.split].join(","));
  if (state.selected) out.set("node", `${state.selected.side}.${state.selected.rank}.${state.selected.row}`);
  if (state.tab !== "Timeline") out.set("tab", state.tab);
  if (state.side) out.set("side", state.side);
  if (state.query) out.set("q", state.query);
  if (state.path) out.set("path", 1);
  out.set("diff", state.diff ? 1 : 0);
  if (state.paint !== "kind") out.set("paint", state.paint);
  state.edits.forEach((text) => out.append("edit", text));
  if (state.editing) out.set("editing", 1);
  if (state.top) out.set("top", Math.round(state.top));
  return out.toString();
}

const keys = (text, form = /^\d+\.\d+$/) => new Set((text || "").split(",").filter((key) => form.test(key)));

// What the address says; null for one that says nothing.
export function restored() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (![...given.keys()].length) return null;
  const [from, to] = (given.get("t") || "").split(",").map(Number);
  const node = /^(\d+)\.(\d+)\.(\d+)$/.exec(given.get("node") || "");
  return {
    ...(to > from ? { from, to } : {}),
    open: keys(given.get("open")),
    split: keys(given.get("split")),
    pinned: keys(given.get("pin"), /^\d+\.\d+\.[tf]\d+$/),
    selected: node ? { side: +node[1], rank: +node[2], row: +node[3] } : null,
    tab: given.get("tab") || "Timeline",
    side: +(given.get("side") || 0) || 0,
    query: given.get("q") || "",
    path: given.get("path") === "1",
    diff: given.get("diff") === "1",
    paint: ["class", "name"].includes(given.get("paint")) ? given.get("paint") : "kind",
    edits: given.getAll("edit"),
    editing: given.get("editing") === "1",
    top: +(given.get("top") || 0) || 0,
  };
}
