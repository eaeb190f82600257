// The canvas: what is visible of it, moved by mouse and keys.
import { ask } from "./api.js";
import { Data } from "./data.js";
import { byId, cssColor } from "./dom.js";
import { Picture } from "./draw.js";
import { figureText, timeText } from "./format.js";
import { LABEL, LINE, MINI, PAD, RULER, keyOf, layout, rowAt, visibleRows } from "./layout.js";
import { CanvasPainter } from "./painter.js";
import { change, onChange, state } from "./state.js";

const LEAST_NS = 20;
const EDGE = { parent: "#56b4e9", child: "#d55e00", peer: "#009e73" };

export class Timeline {
  constructor(session, select) {
    this.session = session;
    this.select = select;
    this.canvas = byId("canvas");
    this.scroller = byId("scroll");
    this.data = new Data((key, what) => this.news(key, what));
    this.extent = null;
    this.edges = [];
    this.selection = null;
    this.onArea = () => {};
    this.plan();
    this.listen();
    onChange((given) => this.changed(given));
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // Where the rows begin that are scrolled: below the overview, the ruler and what is pinned.
  get head() { return RULER + this.band; }

  get plot() { return Math.max(this.scroller.clientWidth - LABEL, 50); }

  plan() {
    const { rows, pinned, band, height } = layout(this.session, this.data.layouts);
    Object.assign(this, { rows, pinned, band });
    byId("spacer").style.height = `${Math.max(height + this.head - this.scroller.clientHeight, 0)}px`;
  }

  changed(given) {
    if (["open", "split", "pinned", "edits"].some((what) => what in given)) this.plan();
    if ("top" in given && Math.abs(this.scroller.scrollTop - state.top) > 1) this.scroller.scrollTop = state.top;
    this.redraw();
  }

  news(key, what) {
    if (what === "rank") this.read(key);
    this.redraw();
  }

  // A rank was read: its tracks are known, and the run may be longer than thought.
  read(key) {
    const found = this.data.layouts.get(key);
    if (found && found.span[1] > found.span[0]) {
      const [a, b] = this.extent || found.span, whole = this.extent && state.from === a && state.to === b;
      this.extent = [Math.min(a, found.span[0]), Math.max(b, found.span[1])];
      if (!state.to || whole) change({ from: this.extent[0], to: this.extent[1] });
      if (a !== this.extent[0] || b !== this.extent[1] || !this.data.overview) this.overview(key);
    }
    this.plan();
    if (state.top && this.scroller.scrollTop !== state.top) this.scroller.scrollTop = state.top;
  }

  // The strip of the whole run is that of the first rank that was read.
  overview(key) {
    this.overviewKey ??= key;
    const [side, rank] = this.overviewKey.split(".").map(Number);
    this.data.fetchOverview({ side, rank }, this.extent);
  }

  redraw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  get theme() {
    return { paper: cssColor("--paper"), tint: cssColor("--tint"), line: cssColor("--line"), ink: cssColor("--ink"), soft: cssColor("--soft"), bad: "#d55e00" };
  }

  picture(painter) {
    const width = this.scroller.clientWidth, height = this.scroller.clientHeight, top = this.scroller.scrollTop;
    const rows = visibleRows(this.rows, top, top + height - this.head);
    return new Picture(painter, { ...this, width, height, top, rows, theme: this.theme });
  }

  draw() {
    const width = this.scroller.clientWidth, height = this.scroller.clientHeight;
    if (!width || !height) return;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const picture = this.picture(new CanvasPainter(this.canvas, width, height, devicePixelRatio || 1));
    picture.draw();
    this.data.want(this.wanted(picture.rows), this.plot);
  }

  // Visible ranks, each once, with the tracks of it that are visible.
  wanted(rows) {
    const out = new Map();
    rows.forEach((row) => {
      const one = out.get(row.key) || { key: row.key, side: row.side, rank: row.rank, first: 1e9, last: 0 };
      if (row.type === "track") Object.assign(one, { first: Math.min(one.first, row.track), last: Math.max(one.last, row.track + 1) });
      out.set(row.key, one);
    });
    return [...out.values()].map((one) => (one.last ? one : { ...one, first: 0 }));
  }

  // --- moving -----------------------------------------------------------------------------------

  show(from, to) {
    const [a, b] = this.extent || [from, to], room = (b - a) * 0.5 + LEAST_NS;
    const span = Math.min(Math.max(to - from, LEAST_NS), (b - a) * 2 + LEAST_NS);
    const begin = Math.min(Math.max(from, a - room), b + room - span);
    change({ from: begin, to: begin + span });
  }

  all() { if (this.extent) change({ from: this.extent[0], to: this.extent[1] }); }

  zoom(factor, at = (state.from + state.to) / 2) {
    this.show(at - (at - state.from) * factor, at + (state.to - at) * factor);
  }

  pan(share) {
    const by = (state.to - state.from) * share;
    this.show(state.from + by, state.to + by);
  }

  time(x) { return state.from + ((x - LABEL) / this.plot) * (state.to - state.from); }

  // Brings a node into sight: opens its rank, moves and zooms no more than needed.
  reveal(node, side) {
    const row = this.rankRow(side, node);
    if (row && !row.open) change({ open: new Set([...state.open, row.key]) });
    if (node.start !== null) this.center(node);
    if (row) this.down(node, row);
  }

  center({ start, length }) {
    const span = state.to - state.from, pixel = span / this.plot;
    if (start >= state.from && start + length <= state.to && length > 3 * pixel) return;
    const wide = length > span || length < 3 * pixel ? Math.max(length * 8, LEAST_NS * 10) : span;
    this.show(start + length / 2 - wide / 2, start + length / 2 + wide / 2);
  }

  // Only what is visible is read: the rank is shown first, its track once that is known.
  async down(node, rank) {
    if (!this.data.layouts.has(rank.key)) this.bring(rank.y);
    for (let tries = 0; !this.data.layouts.has(rank.key) && tries < 600; tries++) await new Promise((go) => setTimeout(go, 50));
    const row = this.rows.find((r) => r.key === rank.key && r.track === node.track) || rank;
    this.bring(row.y + Math.max(node.depth, 0) * LINE);
  }

  bring(y) {
    const { scrollTop, clientHeight } = this.scroller, room = clientHeight - this.head;
    if (y < scrollTop || y + 2 * LINE > scrollTop + room) change({ top: Math.max(y - room / 3, 0) });
  }

  // The row of a node's rank: its own where the fold is split, else the fold's.
  rankRow(side, { rank, fold }) {
    const ranks = this.rows.filter((r) => r.type === "rank" && r.side === side);
    return ranks.find((r) => r.rank === rank) || ranks.find((r) => r.rank === fold);
  }

  // Arrows to what the selected node is tied to.
  tie(node, side) {
    const at = (n, time, peer = false) => ({ ...n, side, time, peer });
    const end = (n) => n.start + n.length;
    const ran = (n) => n.start !== null;
    this.edges = node && ran(node) ? [
      ...node.parents.shown.filter(ran).map((p) => ({ from: at(p, end(p)), to: at(node, node.start), color: EDGE.parent })),
      ...node.children.shown.filter(ran).map((c) => ({ from: at(node, end(node)), to: at(c, c.start), color: EDGE.child })),
      ...(node.peers?.shown || []).slice(0, 40).map((p) => ({ from: at(node, node.start), to: { ...at(p, p.start, true), track: node.track, depth: node.depth }, color: EDGE.peer, dashed: true })),
    ] : [];
    this.redraw();
  }

  // --- mouse and keys ---------------------------------------------------------------------------

  listen() {
    const area = this.scroller;
    area.addEventListener("scroll", () => change({ top: area.scrollTop }));
    area.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    area.addEventListener("pointerdown", (event) => this.press(event));
    area.addEventListener("pointermove", (event) => this.move(event));
    area.addEventListener("pointerup", (event) => this.release(event));
    area.addEventListener("mousemove", (event) => event.stopPropagation()); // the charts' tooltips hide this one
    area.addEventListener("pointerleave", () => { byId("tip").style.display = "none"; });
    area.addEventListener("dblclick", (event) => this.twice(event));
  }

  spot(event) {
    const box = this.scroller.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (y <= RULER) return { x, y, row: null };
    return { x, y, row: y < this.head ? rowAt(this.pinned, y - RULER) : rowAt(this.rows, y - this.head + this.scroller.scrollTop) };
  }

  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY / 250), this.time(this.spot(event).x));
    else if (sideways) this.pan(sideways / this.plot);
    else return;
    event.preventDefault();
  }

  press(event) {
    if (event.button !== 0) return;
    const { x, y } = this.spot(event);
    if (y <= MINI) { this.drag = { mini: true, moved: true }; return this.jump(x); }
    if (event.altKey || event.shiftKey) { this.drag = { x, y, area: true, moved: false }; return; }
    this.drag = { x, y, clientX: event.clientX, from: state.from, to: state.to, top: this.scroller.scrollTop, moved: false, pick: y <= RULER };
  }

  move(event) {
    const spot = this.spot(event);
    if (!this.drag || !(event.buttons & 1)) return this.hover(event, spot);
    if (this.drag.mini) return this.jump(spot.x);
    const { drag } = this, dx = spot.x - drag.x, dy = spot.y - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    if (!drag.moved) this.scroller.setPointerCapture(event.pointerId);
    drag.moved = true;
    if (drag.area) return this.mark(drag, spot);
    if (drag.pick) return;
    const by = (dx / this.plot) * (drag.to - drag.from);
    this.show(drag.from - by, drag.to - by);
    this.scroller.scrollTop = drag.top - dy;
  }

  // Puts a place of the overview into the middle of the window.
  jump(x) {
    if (!this.extent || x < LABEL) return;
    const [a, b] = this.extent, at = a + ((x - LABEL) / this.plot) * (b - a), span = state.to - state.from;
    this.show(at - span / 2, at + span / 2);
  }

  release(event) {
    const { drag } = this, spot = this.spot(event);
    this.drag = null;
    if (!drag || drag.mini) return;
    if (drag.moved && drag.area) this.total();
    else if (drag.moved && drag.pick) {
      const [a, b] = [this.time(drag.x), this.time(spot.x)].sort((p, q) => p - q);
      if (b > a) this.show(a, b);
    } else if (!drag.moved && spot.row) this.click(spot);
  }

  // The area between where the mouse went down and where it is: times, and heights on the whole page.
  mark(drag, spot) {
    const [from, to] = [this.time(Math.max(drag.x, LABEL)), this.time(Math.max(spot.x, LABEL))].sort((p, q) => p - q);
    const [top, bottom] = [drag.y, spot.y].map((y) => Math.max(y, this.head) - this.head + this.scroller.scrollTop).sort((p, q) => p - q);
    this.selection = { from, to, top, bottom };
    this.redraw();
  }

  // The totals of the marked area: of each rank in it, the tracks that it touches, or all of them.
  async total() {
    const { from, to, top, bottom } = this.selection;
    const rows = visibleRows(this.rows, top, bottom).filter((r) => r.type === "track" || r.type === "rank");
    const asked = new Map();
    rows.forEach((row) => {
      const tracks = rows.filter((r) => r.key === row.key && r.type === "track").map((r) => r.track);
      const all = this.data.layouts.get(row.key)?.tracks.length || 0;
      asked.set(row.key, { side: row.side, rank: row.rank, first: tracks.length ? Math.min(...tracks) : 0, last: tracks.length ? Math.max(...tracks) + 1 : all });
    });
    const window = { from: Math.round(from), to: Math.max(Math.round(to), Math.round(from) + 1), width: 1 };
    const found = await Promise.all([...asked.values()].map((one) => ask("area", { ...one, ...window }).then((totals) => ({ ...one, ...totals }))));
    this.onArea(found);
  }

  click({ x, y, row }) {
    this.selection = null;
    if (row.type === "rank" && row.count > 1 && x > LABEL - 30 && x < LABEL) return this.toggle("split", row.key);
    if (x < 30 && row.pin) return this.toggle("pinned", row.pin);
    if (x < LABEL) return row.type === "rank" && this.toggle("open", row.key);
    const hit = this.hit(x, y, row);
    if (hit) this.pick(row, hit);
  }

  toggle(what, key) {
    const keys = new Set(state[what]);
    if (!keys.delete(key)) keys.add(key);
    change({ [what]: keys });
  }

  async pick(row, hit) {
    const at = { side: row.side, rank: row.rank, track: row.track, depth: hit.depth, time: Math.round(hit.time) };
    const number = hit.row ?? (await ask("at", at)).row;
    this.select({ side: row.side, rank: row.rank, row: number }, false);
  }

  twice(event) {
    const { x, y, row } = this.spot(event), hit = row && x > LABEL && this.hit(x, y, row);
    if (hit && hit.row !== undefined) this.show(hit.start - hit.length / 2, hit.start + hit.length * 1.5);
  }

  // The value of a figure under the pointer.
  figureAt(x, row) {
    const sent = this.data.windows.get(row.key), time = this.time(x);
    const value = sent?.figures[row.figure]?.[Math.floor((time - sent.begin) / sent.step)];
    return value === undefined ? "" : `${row.label}: ${figureText(value, row.unit)} at ${timeText(time)}`;
  }

  // What is under the pointer: a slice, or a stretch of slices too short to see.
  hit(x, y, row) {
    const sent = this.data.windows.get(row.key);
    if (row.type !== "track" || !sent) return null;
    const top = row.fixed ? row.y + RULER : row.y - this.scroller.scrollTop + this.head;
    const depth = Math.floor((y - top - PAD / 2) / LINE);
    const line = sent.lines.find((l) => l.track === row.track && l.depth === depth);
    if (!line) return null;
    const time = this.time(x), near = (2 * (state.to - state.from)) / this.plot, at = time - sent.begin;
    let best = null, least = near;
    line.start.forEach((start, i) => {
      const off = Math.max(start - at, at - start - line.length[i]);
      if (off <= least) { least = Math.max(off, 0); best = i; }
    });
    if (best !== null) return { time, depth, row: line.row[best], name: sent.names[line.name[best]], start: sent.begin + line.start[best], length: line.length[best] };
    const part = line.bucket.indexOf(Math.floor(at / sent.step));
    return part < 0 ? null : { time, depth, count: line.count[part] };
  }

  hover(event, { x, y, row }) {
    const tip = byId("tip"), hit = row && x > LABEL && this.hit(x, y, row);
    const pin = row?.pin && x < 30, figure = row?.type === "figure" && x > LABEL && this.figureAt(x, row);
    this.scroller.style.cursor = hit || pin || (row?.type === "rank" && x < LABEL) ? "pointer" : y <= MINI ? "grab" : y <= RULER ? "col-resize" : "default";
    tip.style.display = hit || pin || figure ? "block" : "none";
    if (!hit && !pin && !figure) return;
    tip.textContent = pin ? (row.fixed ? "unpin" : "pin to the top") : figure ? figure : hit.row !== undefined ? `${hit.name}\n${timeText(hit.length)} from ${timeText(hit.start)}`
      : `${hit.count || "several"} nodes too short to see here; zoom in`;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }
}
