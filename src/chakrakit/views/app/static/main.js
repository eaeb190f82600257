// Puts the parts together.
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

async function start() {
  const session = await ask("session");
  const name = session.sides.map((s) => s.name).join(" and ");
  document.title = `${name} – chakra view`;
  byId("title").replaceChildren(...titles(session));
  byId("notes").replaceChildren(...session.sides.flatMap((s) => s.notes.map((note) => el("p", {}, note))));
  const given = restored();
  change(given || { open: opened(session), diff: session.sides.length > 1 });
  byId("query").value = state.query;

  const timeline = new Timeline(session, select);
  const panel = new Panel(session, { select, graph });
  const finder = new Finder(session, panel, timeline), tabs = new Tabs(session);
  window.chakra = { state, timeline }; // for the curious, and for tests

  function graph() { if (state.selected) drawGraph(session, state.selected, 2, select).catch(told); }

  let selection = null;
  function select(at, go = false) {
    selection = at;
    change({ selected: at });
    timeline.tie(null);
    if (!at) return panel.hideNode();
    let first = go;
    described(at, () => selection === at, (node) => {
      panel.node(node, at.side);
      timeline.tie(node, at.side);
      if (first) timeline.reveal(node, at.side);
      first = false;
      if (node.analysis === "done") analyzed();
    }).catch(told);
  }

  // Windows sent before the analysis was done do not know the path.
  let known = false;
  function analyzed() {
    if (known) return;
    known = true;
    byId("status").textContent = "";
    timeline.data.version += 1;
    timeline.redraw();
  }

  let moved = 0;
  onChange((what) => {
    if ("tab" in what || ("side" in what && state.tab !== "Timeline")) tabs.show();
    if ("path" in what || "diff" in what) press();
    if ("path" in what) follow();
    if ("query" in what) finder.search(state.query);
    if (state.path && "from" in what) {
      clearTimeout(moved);
      moved = setTimeout(() => state.path && finder.path().catch(told), 300);
    }
  });

  function press() {
    byId("path").setAttribute("aria-pressed", state.path);
    byId("diff").setAttribute("aria-pressed", state.diff);
    byId("diff").hidden = session.sides.length < 2;
    legend(session);
  }

  async function follow() {
    finder.show();
    while (state.path && !known) {
      const now = await ask("progress");
      if (now.every((side) => side.state === "done")) return analyzed();
      if (now.some((side) => side.error)) return undefined;
      byId("status").textContent = `analyzing: ${now.map((s) => `${s.done} of ${s.total}`).join(", ")} ranks`;
      await new Promise((go) => setTimeout(go, 400));
    }
    return undefined;
  }

  const told = (error) => { byId("status").textContent = error.message; };
  const saved = async (act) => { try { await act(); } catch (error) { told(error); } };
  const side = () => state.selected?.side || 0;
  const acts = {
    in: () => timeline.zoom(0.5), out: () => timeline.zoom(2), all: () => timeline.all(),
    path: () => change({ path: !state.path }), diff: () => change({ diff: !state.diff }),
    svg: () => saveSvg(timeline, name), png: () => savePng(timeline, name),
    perfetto: () => saved(() => openInPerfetto(timeline, side(), name)),
    pftrace: () => saved(async () => download(await windowFile(timeline, side()), "application/octet-stream", `${name}.pftrace`)),
    link: () => copyLink(), help: () => help(),
  };
  Object.entries(acts).forEach(([id, act]) => byId(id).addEventListener("click", act));
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    change({ query: byId("query").value.trim() });
  });
  byId("query").addEventListener("input", () => { if (!byId("query").value) change({ query: "" }); });

  const fit = () => {
    const node = state.selected && byId("node").dataset;
    if (node) described(state.selected, () => true, (n) => n.start !== null && timeline.show(n.start - n.length, n.start + 2 * n.length)).catch(told);
  };
  const keys = {
    w: () => timeline.zoom(0.7), "+": () => timeline.zoom(0.7), s: () => timeline.zoom(1.4), "-": () => timeline.zoom(1.4),
    a: () => timeline.pan(-0.2), ArrowLeft: () => timeline.pan(-0.2), d: () => timeline.pan(0.2), ArrowRight: () => timeline.pan(0.2),
    0: () => timeline.all(), f: fit, n: () => finder.step(1), p: () => finder.step(-1), c: acts.path, g: graph, "?": help,
    "/": () => byId("query").focus(), Escape: () => select(null),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
    if (event.target.closest("input")) { if (event.key === "Escape") event.target.blur(); return; }
    const act = keys[event.key] || keys[event.key.toLowerCase()];
    if (!act || state.tab !== "Timeline") return;
    event.preventDefault();
    act();
  });
  addEventListener("hashchange", () => { if (location.hash.slice(1) !== written()) location.reload(); });

  press();
  tabs.show();
  if (state.query) finder.search(state.query);
  if (state.path) follow();
  if (state.selected) select(state.selected, !given?.to);
}

function titles(session) {
  const badge = session.sides.length > 1;
  return session.sides.flatMap((side, i) => [
    ...(i ? [" "] : []), badge ? `${"AB"[i]} ` : "", side.name, el("i", { title: side.facts }, ` ${side.facts}`)]);
}

// The first rank of each side at first, where there are not many.
const opened = (session) => new Set(session.sides.flatMap((s, side) => (s.folds.length <= 8 && s.folds.length ? [keyOf(side, s.folds[0][0])] : [])));

function legend(session) {
  const kinds = state.diff ? session.changes : session.kinds.slice(0, 4);
  byId("legend").replaceChildren(...kinds.map(({ name, color }) => {
    const mark = el("i");
    mark.style.background = color;
    return el("span", {}, mark, name === "alone" ? "added or removed" : name);
  }));
}

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
    byId("status").textContent = "link copied";
  } catch {
    byId("status").textContent = "the address of this page is the link";
  }
}

start().catch((error) => { byId("status").textContent = error.message; });
