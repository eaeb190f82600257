// Draws the visible rows, from whatever was sent last, with any painter.
import { LABEL, LINE, MINI, PAD, RULER, STRIP } from "./layout.js";
import { state } from "./state.js";
import { tickStep, tickText } from "./format.js";

const DIM = 0.22;
const FIGURE_COLORS = { "bytes/s": "communication", W: "synchronization", tokens: "copy", requests: "compute" };
const STRIP_NAMES = ["compute", "communication", "copy", "late ranks", "bubble"];
const STRIP_GREYS = ["#6b7480", "#a9b1bb", "#cfd5dc", "#e3e7eb", "#e3e7eb"]; // beside the colors of differences

export class Picture {
  constructor(painter, { width, height, top, rows, pinned, band, data, session, theme, edges, selection, extent }) {
    Object.assign(this, { painter, width, height, top, scrolled: rows, pinned, data, session, theme, edges, selection, extent });
    this.rows = [...pinned, ...rows];
    this.head = RULER + band; // where the rows begin that are scrolled
    this.plot = width - LABEL;
    this.query = state.query && !/[=<>~]/.test(state.query) ? state.query.toLowerCase() : "";
  }
  x(time) { return LABEL + ((time - state.from) / (state.to - state.from)) * this.plot; }
  y(row) { return row.fixed ? row.y + RULER : row.y - this.top + this.head; }

  draw() {
    const { painter, theme, width, height, head } = this;
    painter.rect(0, 0, width, height, theme.paper);
    this.stretch(this.scrolled, head, height - head);
    this.stretch(this.pinned, RULER, head - RULER);
    if (head > RULER) painter.rect(0, head - 2, width, 2, theme.soft);
    if (state.to) {
      painter.clip(LABEL, RULER, this.plot, height - RULER);
      this.arrows();
      painter.clip(LABEL, head, this.plot, height - head);
      this.area();
      painter.unclip();
      painter.unclip();
    }
    this.ruler();
    this.overview();
  }

  // Rows between two heights: those that are scrolled, or those that stay.
  stretch(rows, top, height) {
    const { painter } = this;
    painter.clip(0, top, this.width, height);
    rows.forEach((row) => this.background(row));
    if (state.to) {
      painter.clip(LABEL, top, this.plot, height);
      this.grid();
      rows.forEach((row) => this.content(row));
      painter.unclip();
    }
    rows.forEach((row) => this.label(row));
    painter.unclip();
  }

  background(row) {
    const rank = row.type === "rank";
    if (rank) this.painter.rect(0, this.y(row), this.width, STRIP + PAD - 2, this.theme.tint);
    this.painter.rect(0, this.y(row) + row.height - 1, this.width, 1, this.theme.line, rank ? 1 : 0.5);
  }

  label(row) {
    const { painter, theme } = this, y = this.y(row);
    if (row.type === "rank") {
      const badge = this.session.sides.length > 1 ? badgeOf(this.session, row.side) + "  " : "";
      painter.text(8, y + 20, row.open ? "▾" : "▸", theme.soft, 12);
      painter.text(24, y + 20, cut(badge + row.label, row.count > 1 ? 24 : 29), theme.ink, 12, "start", 600);
      if (row.count > 1) painter.text(LABEL - 12, y + 20, row.split ? "⊟" : "⊞", theme.soft, 14, "end");
    } else {
      painter.text(36, y + PAD / 2 + 12, cut(row.label, 26), theme.soft, 11);
      if (row.note) painter.text(36, y + PAD / 2 + 12 + LINE, cut(row.note, 28), theme.soft, 10.5);
      if (row.pin) painter.text(14, y + PAD / 2 + 12, row.fixed ? "◆" : "◇", theme.soft, 10);
    }
    const failed = this.data.failed.get(row.key);
    if (failed && row.type === "rank") painter.text(LABEL + 8, y + 20, failed, theme.bad, 12);
    painter.rect(LABEL - 1, y, 1, row.height, theme.line);
  }

  content(row) {
    const sent = this.data.windows.get(row.key);
    if (!sent) {
      if (!this.data.failed.has(row.key)) this.painter.text(LABEL + 8, this.y(row) + 19, "reading …", this.theme.soft, 11);
      return;
    }
    if (row.type === "rank") this.strip(row, sent);
    if (row.type === "figure") this.figure(row, sent);
    if (row.type === "track") sent.lines.filter((l) => l.track === row.track).forEach((line) => this.line(row, sent, line));
  }

  strip(row, sent) {
    const y = this.y(row) + 3, full = STRIP - 8;
    this.shares(sent, (i) => this.part(sent, i), y + full, full, state.path ? 0.5 : 1, state.from, state.to);
    if (state.path && sent.path) this.path(sent, y + full + 1);
  }

  // What a device does in each part, stacked from `bottom` up to `full`.
  shares(sent, place, bottom, full, alpha, from = -Infinity, to = Infinity) {
    const first = Math.max(0, Math.floor((from - sent.begin) / sent.step));
    const last = Math.min(sent.strip[0].length, Math.ceil((to - sent.begin) / sent.step));
    for (let i = first; i < last; i++) {
      const [x, wide] = place(i);
      let y = bottom;
      sent.strip.forEach((shares, kind) => {
        const height = (shares[i] / 255) * full;
        const fill = state.diff ? STRIP_GREYS[kind] : this.session.colors[STRIP_NAMES[kind]];
        if (height) this.painter.rect(x, (y -= height), wide, height, fill, alpha);
      });
    }
  }

  // A figure over time: as high as its highest value in each part, of the peak that the label says.
  figure(row, sent) {
    const full = row.height - PAD, bottom = this.y(row) + PAD / 2 + full, color = this.session.colors[FIGURE_COLORS[row.unit]] || this.theme.soft;
    (sent.figures[row.figure] || []).forEach((value, i) => {
      const [x, wide] = this.part(sent, i), height = (value / row.peak) * full;
      if (height > 0 && x < this.width && x + wide > LABEL) this.painter.rect(x, bottom - height, wide, height, color, 0.55);
    });
  }

  path(sent, y) {
    const whats = this.data.whats[sent.side] || [], color = (code) => this.session.colors[whats[code]] || this.theme.ink;
    const { start, length, code, bucket, most } = sent.path;
    start.forEach((at, i) => this.painter.rect(this.x(sent.begin + at), y, Math.max(this.wide(length[i]), 1), 5, color(code[i])));
    bucket.forEach((b, i) => {
      const [x, wide] = this.part(sent, b);
      this.painter.rect(x, y, wide, 5, color(most[i]));
    });
  }

  // Where a part is, in whole pixels, so that neighbors leave no seam.
  part(sent, number) {
    const x = Math.round(this.x(sent.begin + number * sent.step)), end = Math.round(this.x(sent.begin + (number + 1) * sent.step));
    return [x, Math.max(end - x, 1)];
  }

  wide(length) { return (length / (state.to - state.from)) * this.plot; }

  line(row, sent, line) {
    const palette = (state.diff ? this.session.changes : this.session.legends[state.paint]).map((k) => k.color);
    const y = this.y(row) + PAD / 2 + line.depth * LINE, height = LINE - 2;
    const onPath = state.path ? new Set(line.path) : null;
    line.bucket.forEach((bucket, i) => {
      const [x, wide] = this.part(sent, bucket);
      if (x > this.width || x + wide < LABEL) return;
      this.painter.rect(x, y, wide, height, palette[line.most[i]],
        (0.3 + 0.7 * (line.share[i] / 255)) * (this.query || onPath ? DIM * 1.5 : 1));
    });
    line.start.forEach((start, i) => this.slice(row, sent, line, i, { y, height, palette, onPath }));
  }

  slice(row, sent, line, i, { y, height, palette, onPath }) {
    const x = this.x(sent.begin + line.start[i]), wide = this.wide(line.length[i]);
    if (x > this.width || x + wide < LABEL) return;
    const name = sent.names[line.name[i]], fill = palette[line.code[i]];
    const lit = onPath ? onPath.has(i) : !this.query || name.toLowerCase().includes(this.query);
    const shown = Math.max(wide - (wide > 3 ? 0.7 : 0), 1);
    // The part of communication in which it only waits: for peers, or for a message to be sent.
    const waited = (!state.diff && line.wait?.[i]) || 0, waits = Math.min(this.wide(Math.abs(waited)), shown);
    if (waits < shown) this.painter.rect(x + waits, y, shown - waits, height, fill, lit ? 1 : DIM);
    if (waits) this.painter.rect(x, y, waits, height, this.session.colors[waited > 0 ? "late ranks" : "bubble"], lit ? 1 : DIM);
    if (onPath && lit) this.painter.rect(x, y + height - 2, shown, 2, this.theme.ink);
    const left = Math.max(x, LABEL) + 4, room = Math.min(x + wide, this.width) - left - 2;
    const text = room > 24 ? cut(name, Math.floor(room / 6.1)) : "";
    if (text.length > 2) this.painter.text(left, y + 11.5, text, lit ? inkOn(fill) : this.theme.soft, 10.5);
    const { selected } = state;
    if (selected && selected.side === row.side && selected.row === line.row[i] && this.shows(row, selected.rank))
      this.painter.frame(x - 1, y - 1, shown + 2, height + 2, this.theme.ink, 2.5);
  }

  // A row stands for all ranks of its fold unless they are listed.
  shows(row, rank) {
    return row.rank === rank || (!state.split.has(row.key) && (this.data.layouts.get(row.key)?.ranks || []).includes(rank));
  }

  place(node) {
    const row = this.rows.find((r) => r.type === "track" && r.side === node.side && r.track === node.track && this.shows(r, node.rank));
    if (row) return this.y(row) + PAD / 2 + node.depth * LINE + LINE / 2;
    const rank = this.rows.find((r) => r.type === "rank" && r.side === node.side && this.shows(r, node.rank));
    return rank && (node.peer || !rank.open) ? this.y(rank) + STRIP / 2 : null;
  }

  arrows() {
    this.edges.forEach(({ from, to, color, dashed }) => {
      const [y0, y1] = [this.place(from), this.place(to)];
      if (y0 !== null && y1 !== null) this.painter.curve(this.x(from.time), y0, this.x(to.time), y1, color, dashed);
    });
  }

  // The area that is being selected, or was.
  area() {
    if (!this.selection) return;
    const { from, to, top, bottom } = this.selection, x = this.x(from);
    this.painter.frame(x, top - this.top + this.head, this.x(to) - x, bottom - top, this.theme.ink, 1.5);
    this.painter.rect(x, top - this.top + this.head, this.x(to) - x, bottom - top, this.theme.ink, 0.08);
  }

  ticks() {
    const step = tickStep(((state.to - state.from) / this.plot) * 110);
    const out = [];
    for (let t = Math.ceil(state.from / step) * step; t <= state.to; t += step) out.push(t);
    return { step, ticks: out };
  }

  grid() {
    this.ticks().ticks.forEach((t) => this.painter.rect(Math.round(this.x(t)), RULER, 1, this.height, this.theme.line, 0.55));
  }

  ruler() {
    const { painter, theme } = this;
    painter.rect(0, MINI, this.width, RULER - MINI, theme.tint);
    painter.rect(0, RULER - 1, this.width, 1, theme.line);
    if (!state.to) return;
    const { step, ticks } = this.ticks();
    ticks.forEach((t) => {
      painter.rect(Math.round(this.x(t)), RULER - 7, 1, 7, theme.soft);
      const x = this.x(t);
      if (x < this.width - 40) painter.text(x + 4, RULER - 9, tickText(t, step), theme.soft, 11);
    });
  }

  // The whole run in a strip, with a frame around what is shown.
  overview() {
    const { painter, theme } = this, sent = this.data.overview;
    painter.rect(0, 0, this.width, MINI, theme.paper);
    painter.rect(0, MINI - 1, this.width, 1, theme.line);
    if (!state.to || !this.extent) return;
    const [a, b] = this.extent, x = (time) => LABEL + ((time - a) / Math.max(b - a, 1)) * this.plot;
    painter.text(8, 15, "whole run", theme.soft, 11);
    if (sent) this.shares(sent, (i) => [x(sent.begin + i * sent.step), Math.max((sent.step / (b - a)) * this.plot, 1)], MINI - 3, MINI - 6, 0.6);
    const [from, to] = [Math.max(state.from, a), Math.min(state.to, b)].map(x);
    painter.rect(LABEL, 0, Math.max(from - LABEL, 0), MINI - 1, theme.line, 0.6);
    painter.rect(to, 0, Math.max(this.width - to, 0), MINI - 1, theme.line, 0.6);
    painter.frame(from, 1, Math.max(to - from, 2), MINI - 3, theme.ink, 1.5);
  }
}

export const badgeOf = (session, side) => (session.together ? session.sides[side].name : session.sides[side].edited ? "edited" : session.sides.some((s) => s.edited) ? "" : "AB"[side]);

export const cut = (text, most) => (text.length <= most ? text : text.slice(0, Math.max(most - 1, 0)) + "…");

// Black or white, whichever is easier to read on a color.
export function inkOn(color) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#10151c" : "#ffffff";
}
