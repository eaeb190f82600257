// The lists of the panel: hits of a search over all ranks, and the critical path of what is visible.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { countText, timeText } from "./format.js";
import { change, state } from "./state.js";

export class Finder {
  constructor(session, panel, timeline) {
    Object.assign(this, { session, panel, timeline, hits: [], at: -1 });
  }

  // Asks on, stretch by stretch of ranks, and shows hits as they come.
  async search(text) {
    const asked = (this.asked = Symbol("search"));
    this.hits = [];
    this.at = -1;
    if (!text) return this.show();
    let total = 0;
    try {
      for (let side = 0; side < this.session.sides.length; side++) {
        for (let first = 0; first !== null; ) {
          const found = await ask("search", { side, text, first });
          if (this.asked !== asked) return;
          if (found.next === first) await new Promise((done) => setTimeout(done, 200)); // the server is busy
          this.hits.push(...found.hits.map((node) => ({ node, side })));
          total += found.total;
          first = found.next;
          this.title = `${countText(total, "hit")}${first === null ? "" : ` in ${found.ranks} of ${found.of} ranks …`}`;
          this.show();
        }
      }
    } catch (error) {
      this.title = error.message;
      this.show();
    }
  }

  show() {
    if (state.path) return this.path();
    if (!state.query) return this.panel.hideList();
    const rows = this.hits.slice(0, 400).map(({ node, side }) => this.panel.hit(node, side, node.start === null ? "did not run" : timeText(node.length)));
    this.panel.list(this.title || "searching …", rows, { close: () => { byId("query").value = ""; change({ query: "" }); } });
    this.mark();
  }

  step(by) {
    if (!this.hits.length) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    const { node, side } = this.hits[this.at];
    this.panel.select({ side, rank: node.rank, row: node.row }, true);
    this.mark();
  }

  mark() {
    [...byId("list").querySelectorAll(".hit")].forEach((hit, i) => hit.classList.toggle("on", i === this.at));
  }

  // --- critical path ----------------------------------------------------------------------------

  async path() {
    const asked = (this.asked = Symbol("path")), close = () => change({ path: false });
    const found = await Promise.all(this.session.sides.map((_, side) => ask("path", { side, from: Math.round(state.from), to: Math.round(state.to) })));
    if (this.asked !== asked || !state.path) return;
    const wait = found.find((f) => f.state !== "done");
    if (wait) {
      this.panel.list(wait.error || "Critical path: analyzing …", [], { close });
      return wait.error ? undefined : setTimeout(() => this.asked === asked && state.path && this.path(), 500);
    }
    this.timeline.data.whats = found.map((f) => f.whats);
    this.timeline.redraw();
    const rows = found.flatMap((f, side) => this.segments(f, side));
    const lengths = found.map((f) => timeText(f.length)).join(" and ");
    this.panel.list(`Critical path: ${lengths}, ${countText(found[0].changes, "change")} of rank`, rows, { close, above: this.bars(found) });
  }

  bars(found) {
    return el("div", { className: "part" }, ...found.map(({ attribution, length }) => {
      const bar = el("div", { className: "bar" });
      attribution.forEach(([what, ns]) => {
        const piece = el("i", { title: `${what}: ${timeText(ns)} (${((100 * ns) / length).toFixed(1)} %)` });
        piece.style.cssText = `width:${(100 * ns) / length}%;background:${this.session.colors[what] || "#999"}`;
        bar.append(piece);
      });
      const told = attribution.slice(0, 3).map(([what, ns]) => `${what} ${((100 * ns) / length).toFixed(0)} %`).join(", ");
      return el("div", {}, bar, el("small", {}, told));
    }));
  }

  segments({ segments, count }, side) {
    const rows = segments.map((s) => this.panel.hit(s, side, `${s.what} ${timeText(s.length)}`, this.session.colors[s.what]));
    if (count > segments.length) rows.push(el("p", { className: "empty part" }, `the longest ${segments.length} of ${count.toLocaleString("en")} here`));
    return rows;
  }
}
