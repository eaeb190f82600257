// What the server sent of each rank, and what to ask it next. Only what is visible is asked for.
import { ask, edited } from "./api.js";
import { state } from "./state.js";

const AT_ONCE = 3;
const PIXELS = 2; // of a part whose slices are too short to be drawn one by one

export class Data {
  constructor(onNews) {
    this.layouts = new Map();
    this.windows = new Map();
    this.busy = new Map();
    this.failed = new Map();
    this.overview = null; // the whole run, of the first rank that was read
    this.whats = []; // by side, what the codes of its critical path mean
    this.version = 0; // grows when what was sent is out of date: the analysis has come
    this.onNews = onNews;
    this.slowest = 0;
  }

  // `wanted`: [{key, side, rank, first, last}] in order of need; `width` px show [from, to).
  want(wanted, width) {
    this.wanted = wanted;
    this.width = width;
    this.next();
  }

  next() {
    for (const one of this.wanted || []) {
      if (this.busy.size >= AT_ONCE) return;
      if (this.busy.has(one.key) || this.failed.has(one.key)) continue;
      if (!this.layouts.has(one.key)) this.fetch(one, "rank", {}, (found) => this.layouts.set(one.key, found));
      else if (state.to && !this.fits(one)) this.fetchWindow(one);
    }
  }

  fits(one) {
    const have = this.windows.get(one.key);
    if (!have || have.version !== this.version || have.paint !== paint() || have.edits !== editsOf(one.side)) return false;
    if (have.first > one.first || have.last < one.last) return false;
    const step = ((state.to - state.from) / this.width) * PIXELS;
    const fine = have.step <= step * 1.3 || have.step <= 1;
    // Not much finer than needed either: fine data of a small stretch would be no help, but it covers.
    return fine && have.begin <= state.from && have.end >= state.to && have.step >= step / 3;
  }

  fetchWindow(one) {
    const span = state.to - state.from, { version } = this, by = paint(), edits = editsOf(one.side);
    const from = Math.floor(state.from - span / 2), to = Math.ceil(state.to + span / 2);
    const asked = { from, to, width: Math.min(Math.ceil((2 * this.width) / PIXELS), 7999), first: one.first, last: one.last, paint: by };
    this.fetch(one, "window", asked, (found) =>
      this.windows.set(one.key, { ...found, side: one.side, end: to, version, paint: by, edits, first: one.first, last: one.last }));
  }

  // The strip of a rank over the whole run, for the strip above the ruler.
  async fetchOverview({ side, rank }, [from, to]) {
    const given = { side, rank, from: Math.floor(from), to: Math.ceil(to), width: 500, first: 0, last: 0 };
    this.overview = await ask("window", given).catch(() => null);
    this.onNews("", "overview");
  }

  async fetch(one, what, given, take) {
    this.busy.set(one.key, what);
    const began = performance.now(), edits = editsOf(one.side);
    try {
      take(await ask(what, { side: one.side, rank: one.rank, ...given }));
      this.slowest = Math.max(this.slowest, performance.now() - began);
    } catch (error) {
      if (edits === editsOf(one.side)) this.failed.set(one.key, error.message); // else it may not fail any more
    }
    this.busy.delete(one.key);
    this.onNews(one.key, what);
    this.next();
  }
}

export const paint = () => (state.diff ? "change" : state.paint);
const editsOf = (side) => (side === edited.side ? JSON.stringify(edited.edits) : "");
