// The side panel: a list (hits of a search, the critical path) above, the selected node below.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { badgeOf } from "./draw.js";
import { countText, timeText } from "./format.js";

const ROWS = [
  ["start", (n) => n.start !== null && timeText(n.start)],
  ["duration", (n) => n.length !== null && timeText(n.length)],
  ["own time", (n) => n.own !== null && n.own !== n.length && timeText(n.own)],
  ["slack", (n) => n.slack !== null && (n.slack <= 1000 ? `${timeText(n.slack)}: the run waits for it` : timeText(n.slack))],
  ["rank", (n, name) => name(n.rank)],
  ["lane", (n) => n.lane],
  ["kind", (n) => n.kind],
  ["type", (n) => n.type],
  ["id", (n) => n.id],
  ["operator", (n) => n.operator],
];

export class Panel {
  constructor(session, { select, graph, analyze, editsFor }) {
    Object.assign(this, { session, select, graph, analyze, editsFor });
  }

  fold() { byId("panel").hidden = byId("list").hidden && byId("node").hidden && byId("edits").hidden; }

  // --- the list ---------------------------------------------------------------------------------

  list(title, rows, { above = null, close }) {
    const shown = byId("list");
    shown.replaceChildren(
      el("div", { className: "head" }, el("b", {}, title), el("button", { title: "Close", on: { click: close } }, "✕")),
      ...[above].filter(Boolean), ...rows);
    shown.hidden = false;
    this.fold();
  }

  hideList() {
    byId("list").hidden = true;
    this.fold();
  }

  hit(node, side, note, color) {
    const mark = color ? el("i") : null;
    if (mark) mark.style.background = color;
    const badge = this.session.sides.length > 1 ? `${badgeOf(this.session, side)} ` : "";
    return el("button", { className: "hit", title: node.name, on: { click: () => this.select({ side, rank: node.rank, row: node.row }, true) } },
      mark, el("span", { className: "what" }, node.name), el("small", {}, `${badge}${rankText(this.session, side, node.rank)} · ${note}`));
  }

  // --- the node ---------------------------------------------------------------------------------

  hideNode() {
    byId("node").hidden = true;
    this.fold();
  }

  node(node, side) {
    const shown = byId("node"), close = () => this.select(null);
    const parts = [this.facts(node, side), this.twin(node), this.waits(node, side), this.peers(node, side),
      this.ends("Depends on", node.parents, side), this.ends("Needed by", node.children, side),
      this.table("Attributes", node.attributes), this.table("Tensors", node.fields)];
    shown.replaceChildren(
      el("div", { className: "head" }, el("b", {}, node.name), el("button", { title: "Close (Esc)", on: { click: close } }, "✕")),
      el("div", { className: "part" }, ...parts.flat().filter(Boolean)));
    shown.hidden = false;
    this.fold();
  }

  facts(node, side) {
    const name = (rank) => rankText(this.session, side, rank).replace("rank ", "");
    const rows = ROWS.map(([title, get]) => [title, get(node, name)]).filter(([, text]) => text);
    return [table(rows), this.analysis(node), el("p", {}, el("button", { on: { click: () => this.graph(node) } }, "Draw the graph around it")), this.editsFor(node)];
  }

  // What is not known without an analysis: it comes by itself, or, where that takes long, when asked for.
  analysis({ analysis }) {
    if (analysis === "running") return el("p", { className: "empty" }, "Slack, waits and peers come with the analysis …");
    if (analysis === "idle") return el("p", {}, el("button", { on: { click: () => this.analyze() } }, "Analyze the run for slack, waits and peers"));
    return null;
  }

  twin({ twin, length }) {
    if (!twin) return null;
    const name = "AB"[twin.side];
    const told = twin.node ? `${twin.change}: ${timeText(twin.node.length)} in ${name}, ${timeText(length)} here` : `${twin.change}: not in ${name}`;
    return [el("h4", {}, "In the other run"), el("p", {}, told), twin.node ? this.hit(twin.node, twin.side, timeText(twin.node.length)) : null];
  }

  waits({ waits }, side) {
    return waits.flatMap(({ event, what, node }) => [
      el("h4", {}, `Its ${event} waited for ${what}`), node ? this.hit(node, side, timeText(node.length ?? 0)) : null]);
  }

  peers({ peers, name }, side) {
    if (!peers) return null;
    const last = peers.last === null ? "" : `, last came ${rankText(this.session, side, peers.last)}`;
    const title = peers.collective ? `Collective${peers.group ? " in group " + peers.group : ""}, ${countText(peers.members, "rank")}` : "Message";
    return [el("h4", {}, title),
      el("p", {}, `waited ${timeText(peers.wait)} for others${last}; transfer ${timeText(peers.transfer)}`),
      ...peers.shown.map((p) => this.hit({ ...p, name: peers.collective ? name : "the other end" }, side, `${timeText(p.length)} from ${timeText(p.start)}`)),
      more(peers)];
  }

  ends(title, edges, side) {
    if (!edges.count) return null;
    return [el("h4", {}, `${title} (${edges.count.toLocaleString("en")})`),
      ...edges.shown.map((n) => this.hit(n, side, `${n.edge}${n.lag ? " +" + timeText(n.lag) : ""}`)), more(edges)];
  }

  table(title, values) {
    const rows = Object.entries(values);
    return rows.length ? [el("h4", {}, title), table(rows)] : null;
  }
}

// What a rank is called: by the actor that it is, where programs ran.
const rankText = ({ sides }, side, rank) => sides[side].names[rank] ?? `rank ${rank}`;

const more = ({ count, shown }) => (count > shown.length ? el("p", { className: "empty" }, `and ${(count - shown.length).toLocaleString("en")} more`) : null);

const table = (rows) => el("table", {}, el("tbody", {}, ...rows.map(([name, text]) => el("tr", {}, el("td", {}, name), el("td", {}, text)))));

// Fetches a node again until the analysis has said all about it.
export async function described(at, isStill, show) {
  for (;;) {
    const node = await ask("node", at);
    if (!isStill()) return;
    show(node);
    if (node.analysis !== "running") return;
    await new Promise((go) => setTimeout(go, 500));
    if (!isStill()) return;
  }
}

