// Puts the parts together: what a change of state sets off, buttons, keys.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { Finder } from "./finder.js";
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
  ["Ctrl + wheel", "zoom at the pointer"], ["Shift + wheel, drag", "move"], ["drag on the ruler", "zoom to a stretch"],
  ["double click", "zoom to a node"], ["click on a rank", "its tracks; ⊞ lists the ranks it stands for"],
];

const say = (text) => { byId("status").textContent = text; };
const pause = (ms) => new Promise((go) => setTimeout(go, ms));

class App {
  constructor(session) {
    this.session = session;
    this.name = session.sides.map((side) => side.name).join(" and ");
    this.given = restored();
    change(this.given || { open: opened(session), diff: session.sides.length > 1 });
    const select = (at, go) => this.select(at, go);
    this.timeline = new Timeline(session, select);
    this.panel = new Panel(session, { select, graph: () => this.graph(), analyze: () => this.analyze() });
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
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== written()) location.reload(); });
    this.changed({ tab: state.tab, path: state.path, query: state.query });
    if (state.selected) this.select(state.selected, !this.given?.to);
  }

  changed(what) {
    if ("tab" in what || ("side" in what && state.tab !== "Timeline")) this.tabs.show();
    if ("path" in what || "diff" in what) this.press();
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
    byId("diff").hidden = this.session.sides.length < 2;
    const kinds = state.diff ? this.session.changes : this.session.kinds.slice(0, 4);
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
      link: copyLink, help,
    };
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
      c: () => change({ path: !state.path }), "?": help, "/": () => byId("query").focus(), escape: () => this.select(null),
    };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open || state.tab !== "Timeline") return;
      if (event.target.closest("input")) { if (event.key === "Escape") event.target.blur(); return; }
      const act = acts[event.key.toLowerCase()];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
}

function titles({ sides }) {
  if (sides.length === 1) return [sides[0].name, el("i", {}, ` ${sides[0].facts}`)];
  return sides.flatMap((side, i) => [el("i", {}, `${i ? " " : ""}${"AB"[i]} `), el("span", { title: side.facts }, side.name)]);
}

// The first rank of each side at first, where there are not many.
const opened = ({ sides }) => new Set(sides.flatMap(({ folds }, side) => (folds.length && folds.length <= 8 ? [keyOf(side, folds[0][0])] : [])));

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
