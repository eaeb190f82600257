// The graph around a node as SVG: what it needs on the left, what needs it on the right.
import { ask } from "./api.js";
import { byId, el, svgEl } from "./dom.js";
import { cut, inkOn } from "./draw.js";
import { countText, timeText } from "./format.js";

const WIDE = 200, HIGH = 38, GAP_X = 70, GAP_Y = 12;

export async function drawGraph(session, { side, rank, row }, hops, select) {
  const found = await ask("around", { side, rank, row, hops });
  const dialog = byId("dialog");
  const save = (kind) => el("button", { className: "save", data: { kind } }, kind.toUpperCase());
  const near = [1, 2, 3, 4].map((n) => el("button", { ariaPressed: String(n === hops), on: { click: () => drawGraph(session, { side, rank, row }, n, select) } }, String(n)));
  const figure = el("figure", {},
    el("figcaption", {}, el("b", {}, "Graph around a node"), el("span", { className: "buttons" }, save("svg"), save("png")),
      el("p", {}, `${countText(found.nodes.length, "node")}, hops: `, el("span", { className: "group" }, ...near), hidden(found.hidden))),
    picture(session, found, row, (n) => { dialog.close(); select({ side, rank, row: n.row }, true); }));
  dialog.replaceChildren(figure, el("p", {}, el("button", { on: { click: () => dialog.close() } }, "Close")));
  enliven(dialog);
  if (!dialog.open) dialog.showModal();
}

function hidden(count) {
  return count ? `; ${count.toLocaleString("en")} more, farther in time, are left out` : "";
}

function picture(session, { nodes, edges }, center, pick) {
  const columns = [...new Set(nodes.map((n) => n.column))].sort((a, b) => a - b);
  const most = Math.max(...columns.map((c) => nodes.filter((n) => n.column === c).length));
  const height = most * (HIGH + GAP_Y) + 24, width = columns.length * (WIDE + GAP_X) - GAP_X + 24;
  const at = new Map();
  columns.forEach((column, i) => {
    const mine = nodes.filter((n) => n.column === column), top = (height - mine.length * (HIGH + GAP_Y) + GAP_Y) / 2;
    mine.forEach((node, j) => at.set(node.row, { x: 12 + i * (WIDE + GAP_X), y: top + j * (HIGH + GAP_Y) }));
  });
  const svg = svgEl("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", "font-size": 11, role: "img" });
  edges.forEach((edge) => svg.append(arrow(at.get(edge.from), at.get(edge.to), edge)));
  nodes.forEach((node) => svg.append(box(session, node, at.get(node.row), node.row === center, pick)));
  return svg;
}

function arrow(a, b, { edge }) {
  const [x0, y0, x1, y1] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
  const bend = x1 > x0 ? GAP_X / 2 : GAP_X;
  const line = svgEl("path", { d: `M${x0},${y0} C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`, fill: "none", stroke: "#8a8f98", "stroke-width": 1.3 });
  const head = svgEl("path", { d: `M${x1},${y1} l-6,-3.5 v7 z`, fill: "#8a8f98" });
  const made = svgEl("g", {}, line, head);
  made.dataset.tip = `${edge} edge`;
  return made;
}

function box(session, node, { x, y }, center, pick) {
  const fill = session.colors[node.kind === "comm" ? "communication" : node.kind] || "#999999", ink = inkOn(fill);
  const length = node.length === null ? "did not run" : timeText(node.length);
  const made = svgEl("g", { class: "box" },
    svgEl("rect", { x, y, width: WIDE, height: HIGH, rx: 5, fill, ...(center ? { stroke: "#d55e00", "stroke-width": 3 } : {}) }),
    svgEl("text", { x: x + 8, y: y + 16, fill: ink, "font-weight": 600 }, cut(node.name, 25)),
    svgEl("text", { x: x + 8, y: y + 30, fill: ink }, cut(`${node.id} · ${length}`, 32)));
  made.dataset.tip = `${node.name} (${node.id}): ${length}`;
  made.addEventListener("click", () => pick(node));
  return made;
}
