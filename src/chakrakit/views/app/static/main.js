// Puts the parts together: what a change of state sets off, buttons, keys.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { Editor } from "./edit.js";
import { Finder } from "./finder.js";
import { timeText } from "./format.js";
import { drawGraph } from "./graph.js";
import { keyOf } from "./layout.js";
import { Panel, described } from "./panel.js";
import { download, openInPerfetto, savePng, saveSvg, windowFile } from "./save.js";
import { change, onChange, restored, state, written } from "./state.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";

const KEYS = [
  ["W S  or  + −", "zoom in, out"], ["A D  or  ← →", "move left, right"], ["0", "show all"], ["F", "fit the selected node"],
  ["/", "search"], ["N P", "next, previous hit"], ["C", "critical path"], ["G", "graph around the node"], ["Esc", "clear the selection"],
  ["I", "pin the track of the selected node"], ["E", "edit the run"], ["U", "undo an edit"], ["K", "colors: kind, class, name"], [", .", "previous, next slice of the lane"], ["↑ ↓", "scroll"],
  ["Shift + drag", "select an area: its totals"], ["Ctrl + wheel", "zoom at the pointer"], ["Shift + wheel, drag", "move"], ["drag on the ruler", "zoom to a stretch"],
  ["double click", "zoom to a node"], ["click on a rank", "its tracks; ⊞ lists the ranks it stands for"],
];

const say = (text) => { byId("status").textContent = text; };
const pause = (ms) => new Promise((go) => setTimeout(go, ms));

class App {
  constructor(session) {
    this.session = session;
    this.name = session.sides.map((side) => side.name).join(" and ");
    this.given = restored();
    change(this.given || { open: opened(session), diff: session.sides.length > 1 && !session.together });
    const select = (at, go) => this.select(at, go);
    this.editor = new Editor(session, () => this.timeline.redraw());
    onChange((what) => { if ("edits" in what) this.edited(); }); // before the timeline looks which sides there are
    this.timeline = new Timeline(session, select);
    this.panel = new Panel(session, { select, graph: () => this.graph(), analyze: () => this.analyze(), editsFor: (node) => this.editor.forNode(node) });
    this.timeline.onArea = (found) => this.area(found);
    this.finder = new Finder(session, this.panel, this.timeline);
    this.tabs = new Tabs(session);
    this.analyzed = false;
  }

  start() {
    document.title = `${this.name} – chakra view`;
    byId("title").replaceChildren(...titles(this.session));
    byId("notes").replaceChildren(...this.session.sides.flatMap((side) => side.notes.map((note) => el("p", {}, note))));
    byId("query").value = state.query;
    onChange((what) => this.changed(what));
    this.buttons();
    this.keys();
    byId("edit").hidden = !this.editor.possible;
    byId("facts").textContent = this.session.sides[0].facts;
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== written()) location.reload(); });
    this.changed({ tab: state.tab, path: state.path, query: state.query, paint: state.paint });
    if (state.edits.length) change({ edits: state.edits });
    if (state.editing) this.changed({ editing: true });
    this.pruneTabs();
    if (state.selected) this.select(state.selected, !this.given?.to);
  }

  edited() {
    this.editor.changed();
    const { failed } = this.timeline.data; // what failed under other edits may not under these
    [...failed.keys()].filter((key) => key.startsWith("1.")).forEach((key) => failed.delete(key));
  }

  changed(what) {
    if ("tab" in what || ("side" in what && state.tab !== "Timeline")) this.tabs.show();
    if ("editing" in what) { this.editor.show(); this.panel.fold(); }
    if ("path" in what || "diff" in what || "paint" in what) this.press();
    if ("path" in what && state.path) this.follow();
    if ("path" in what) this.finder.show();
    if ("query" in what) this.finder.search(state.query);
    if (state.path && "from" in what) {
      clearTimeout(this.moved);
      this.moved = setTimeout(() => state.path && this.finder.path().catch((error) => say(error.message)), 300);
    }
  }

  press() {
    byId("path").setAttribute("aria-pressed", state.path);
    byId("diff").setAttribute("aria-pressed", state.diff);
    byId("diff").hidden = this.session.together || this.session.sides.filter((side) => !side.edited).length < 2;
    byId("paint").value = state.paint;
    const kinds = state.diff ? this.session.changes : legendOf(this.session);
    byId("legend").replaceChildren(...kinds.map(({ name, color }) => {
      const mark = el("i");
      mark.style.background = color;
      return el("span", {}, mark, name === "alone" ? "added or removed" : name);
    }));
  }

  // --- nodes --------------------------------------------------------------------------------------

  select(at, go = false) {
    change({ selected: at });
    this.timeline.tie(null);
    if (!at) return this.panel.hideNode();
    let first = go;
    return described(at, () => state.selected === at, (node) => {
      this.panel.node(node, at.side);
      this.timeline.tie(node, at.side);
      if (first) this.timeline.reveal(node, at.side);
      first = false;
      if (node.analysis === "done") this.follow();
    }).catch((error) => say(error.message));
  }

  // Totals of a marked area, in the panel's list.
  area(found) {
    const rows = found.flatMap((one) => [
      el("h4", {}, `rank ${one.rank}: ${timeText(one.span)}, ${one.slices.toLocaleString("en")} slices`),
      table([...one.kinds, ...one.names].map(([name, ns, count]) => [name, `${timeText(ns)} · ${(100 * ns / one.span).toFixed(1)} %${count ? ` · ${count.toLocaleString("en")}×` : ""}`])),
    ]);
    this.panel.list("Selected area", [el("div", { className: "part", id: "area" }, ...rows)], { close: () => { this.timeline.selection = null; this.timeline.redraw(); this.panel.hideList(); } });
  }

  // The slice before or after the selected one in its lane.
  async beside(step) {
    const at = state.selected;
    if (!at) return;
    const node = await ask("node", at), time = step > 0 ? node.start + node.length + 1 : node.start - 1;
    if (node.start === null || node.track < 0) return;
    const { row } = await ask("at", { side: at.side, rank: at.rank, track: node.track, depth: node.depth, time });
    if (row !== at.row) this.select({ ...at, row }, true);
  }

  // A small run is analyzed at once, for waits and bubbles; tabs that would be empty go when that is done.
  async pruneTabs() {
    await ask("analyze", { side: 0, small: 1 });
    for (let tries = 0; tries < 240; tries++) {
      const sides = await ask("progress");
      if (sides.every((side) => side.state === "done")) {
        this.follow();
        return this.tabs.prune();
      }
      await pause(1000);
    }
  }

  // Pins the track of the selected node to the top, or takes it back.
  async pin() {
    const at = state.selected;
    if (!at) return;
    const node = await ask("node", at), row = this.timeline.rankRow(at.side, node);
    if (node.track >= 0 && row) this.timeline.toggle("pinned", `${row.key}.t${node.track}`);
  }

  fit() {
    const at = state.selected;
    if (!at) return;
    ask("node", at).then((n) => n.start !== null && this.timeline.show(n.start - n.length, n.start + 2 * n.length), (error) => say(error.message));
  }

  graph() {
    if (state.selected) drawGraph(this.session, state.selected, 2, (at, go) => this.select(at, go)).catch((error) => say(error.message));
  }

  // --- the analysis -------------------------------------------------------------------------------

  async analyze() {
    await ask("analyze", { side: state.selected.side });
    this.select({ ...state.selected });
  }

  // Windows that were sent before the analysis was done do not know the path: they are asked for again.
  async follow() {
    while (!this.analyzed) {
      const sides = await ask("progress");
      if (sides.every((side) => side.state === "done")) {
        this.analyzed = true;
        this.timeline.data.version += 1;
        if (this.timeline.overviewKey) this.timeline.overview();
        this.timeline.redraw();
        say("");
      } else if (!state.path || sides.some((side) => side.error)) return;
      else {
        say(`analyzing: ${sides.map((side) => `${side.done} of ${side.total}`).join(", ")} ranks`);
        await pause(400);
      }
    }
  }

  // --- buttons and keys ---------------------------------------------------------------------------

  buttons() {
    const { timeline, name } = this, side = () => state.selected?.side || 0;
    const tried = (act) => async () => { try { await act(); } catch (error) { say(error.message); } };
    const acts = {
      in: () => timeline.zoom(0.5), out: () => timeline.zoom(2), all: () => timeline.all(),
      path: () => change({ path: !state.path }), diff: () => change({ diff: !state.diff }),
      svg: () => saveSvg(timeline, name), png: () => savePng(timeline, name),
      perfetto: () => openInPerfetto(timeline, side(), name),
      pftrace: async () => download(await windowFile(timeline, side()), "application/octet-stream", `${name}.pftrace`),
      edit: () => change({ editing: !state.editing }), link: copyLink, help,
    };
    byId("paint").addEventListener("change", (event) => change({ paint: event.target.value }));
    Object.entries(acts).forEach(([id, act]) => byId(id).addEventListener("click", tried(act)));
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      change({ query: byId("query").value.trim() });
    });
    byId("query").addEventListener("input", () => { if (!byId("query").value) change({ query: "" }); });
  }

  keys() {
    const { timeline, finder } = this;
    const acts = {
      w: () => timeline.zoom(0.7), "+": () => timeline.zoom(0.7), s: () => timeline.zoom(1.4), "-": () => timeline.zoom(1.4),
      a: () => timeline.pan(-0.2), arrowleft: () => timeline.pan(-0.2), d: () => timeline.pan(0.2), arrowright: () => timeline.pan(0.2),
      0: () => timeline.all(), f: () => this.fit(), n: () => finder.step(1), p: () => finder.step(-1), g: () => this.graph(),
      e: () => this.editor.possible && change({ editing: !state.editing }), u: () => this.editor.undo(),
      k: () => change({ paint: { kind: "class", class: "name", name: "kind" }[state.paint] }),
      i: () => this.pin(),
      ",": () => this.beside(-1), ".": () => this.beside(1),
      arrowup: () => byId("scroll").scrollBy(0, -60), arrowdown: () => byId("scroll").scrollBy(0, 60),
      c: () => change({ path: !state.path }), "?": help, "/": () => byId("query").focus(), escape: () => this.select(null),
    };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open || state.tab !== "Timeline") return;
      if (event.target.closest("input, textarea, select")) { if (event.key === "Escape") event.target.blur(); return; }
      const act = acts[event.key.toLowerCase()];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
}

const KINDS = ["compute", "communication", "copy", "host", "load", "save"];

// What colors mean: of the kinds of rows those that these runs can have, of the classes all that are named.
function legendOf({ legends, colors, parts }) {
  if (state.paint === "name") return [];
  const shown = parts.length ? parts : KINDS;
  const kinds = legends[state.paint].filter(({ name }) => (state.paint === "class" ? name !== "other" : shown.includes(name)));
  if (parts.length) return kinds;
  return [...kinds, { name: "late ranks", color: colors["late ranks"] }, { name: "bubble", color: colors.bubble }];
}

const table = (rows) => el("table", {}, el("tbody", {}, ...rows.map(([name, text]) => el("tr", {}, el("td", {}, name), el("td", {}, text)))));

function titles({ sides, together }) {
  if (sides.length === 1) return [sides[0].name];
  if (together) return [sides.map((side) => side.name).join(" · ")];
  return sides.flatMap((side, i) => [el("i", {}, `${i ? " " : ""}${"AB"[i]} `), el("span", { title: side.facts }, side.name)]);
}

// The first rank of each side at first, where there are not many.
const opened = ({ sides }) => new Set(sides.flatMap(({ folds }, side) => (folds.length ? [keyOf(side, folds[0][0])] : [])));

function help() {
  const dialog = byId("dialog");
  dialog.replaceChildren(el("dl", {}, ...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
    el("p", {}, el("button", { on: { click: () => dialog.close() } }, "Close")));
  dialog.showModal();
}

async function copyLink() {
  history.replaceState(null, "", "#" + written());
  try {
    await navigator.clipboard.writeText(location.href);
    say("link copied");
  } catch {
    say("the address of this page is the link");
  }
}

ask("session").then((session) => {
  const app = (window.chakra = new App(session)); // in reach of the console, and of tests
  app.state = state;
  app.start();
}).catch((error) => say(error.message));
