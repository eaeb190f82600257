// The tabs beside the timeline: sections of the report, made by the server once the analysis is done.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { showFlame } from "./flame.js";
import { put } from "./goto.js";
import { showNetwork } from "./network.js";
import { showQuery } from "./sql.js";
import { change, state } from "./state.js";

const SQL = "SQL";
const EMPTY = "<p class='empty'>This run has nothing to show here.</p>";

export class Tabs {
  constructor(session) {
    this.session = session;
    const find = (name) => { byId("query").value = name; change({ tab: "Timeline", query: name }); };
    // Tabs that need no analysis: what fills each.
    this.looks = { "Flame graph": (page) => showFlame(page, session, find), Network: (page) => showNetwork(page, session), [SQL]: showQuery };
    this.fillTabs([]);
  }

  get names() { return ["Timeline", ...this.session.looks, ...this.session.tabs, SQL]; }

  // Once the analysis is done it is known which tabs would be empty; those go.
  async prune() {
    const { empty } = await ask("tabs");
    if (empty.length) this.fillTabs(empty);
    this.pruned = true; // tests wait for it
  }

  fillTabs(empty) {
    byId("tabs").replaceChildren(...this.names.filter((name) => !empty.includes(name)).map((name) =>
      el("button", { role: "tab", ariaSelected: String(name === state.tab), on: { click: () => change({ tab: name }) } }, name)));
  }

  async show() {
    const name = this.names.includes(state.tab) ? state.tab : "Timeline";
    [...byId("tabs").children].forEach((tab) => tab.setAttribute("aria-selected", tab.textContent === name));
    byId("timeline").hidden = name !== "Timeline";
    byId("panel").style.display = name === "Timeline" ? "" : "none";
    byId("page").hidden = name === "Timeline";
    if (this.looks[name]) await this.looks[name](byId("page"));
    else if (name !== "Timeline") await this.fill(name);
  }

  async fill(name) {
    const page = byId("page"), asked = (this.asked = Symbol(name));
    page.replaceChildren(...this.sides(name), el("p", { className: "empty wait" }, "Analyzing …"));
    for (;;) {
      const found = await ask("section", { name, side: state.side }).catch((error) => ({ state: "failed", error: error.message }));
      if (this.asked !== asked || state.tab !== name) return;
      if (found.state === "done") return put(page, found.markup || EMPTY, found.origin, ...this.sides(name));
      if (found.state === "failed") return page.replaceChildren(el("p", {}, found.error));
      const progress = (await ask("progress"))[state.side];
      if (progress && page.lastChild) page.lastChild.textContent = `Analyzing … ${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")} ranks read`;
      await new Promise((go) => setTimeout(go, 400));
      if (this.asked !== asked) return;
    }
  }

  sides(name) {
    if (this.session.sides.length < 2 || name === "Comparison") return [];
    const buttons = this.session.sides.map((side, i) =>
      el("button", { ariaPressed: String(i === state.side), on: { click: () => change({ side: i }) } }, this.session.together ? side.name : `${"AB"[i]}: ${side.name}`));
    return [el("p", { className: "side" }, el("span", { className: "group" }, ...buttons))];
  }
}
