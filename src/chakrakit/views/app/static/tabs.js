// The tabs beside the timeline: sections of the report, made by the server once the analysis is done.
import { ask } from "./api.js";
import { byId, el } from "./dom.js";
import { showQuery } from "./sql.js";
import { change, state } from "./state.js";

const SQL = "SQL";

export class Tabs {
  constructor(session) {
    this.session = session;
    this.fillTabs([]);
  }

  // Once the analysis is done it is known which tabs would be empty; those go.
  async prune() {
    const { empty } = await ask("tabs");
    if (empty.length) this.fillTabs(empty);
    this.pruned = true; // tests wait for it
  }

  fillTabs(empty) {
    byId("tabs").replaceChildren(...["Timeline", ...this.session.tabs.filter((name) => !empty.includes(name)), SQL].map((name) =>
      el("button", { role: "tab", ariaSelected: String(name === state.tab), on: { click: () => change({ tab: name }) } }, name)));
  }

  async show() {
    const name = ["Timeline", ...this.session.tabs, SQL].includes(state.tab) ? state.tab : "Timeline";
    [...byId("tabs").children].forEach((tab) => tab.setAttribute("aria-selected", tab.textContent === name));
    byId("timeline").hidden = name !== "Timeline";
    byId("panel").style.display = name === "Timeline" ? "" : "none";
    byId("page").hidden = name === "Timeline";
    if (name === SQL) showQuery(byId("page"));
    else if (name !== "Timeline") await this.fill(name);
  }

  async fill(name) {
    const page = byId("page"), asked = (this.asked = Symbol(name));
    page.replaceChildren(...this.sides(name), el("p", { className: "empty wait" }, "Analyzing …"));
    for (;;) {
      const found = await ask("section", { name, side: state.side }).catch((error) => ({ state: "failed", error: error.message }));
      if (this.asked !== asked || state.tab !== name) return;
      if (found.state === "done") return this.put(page, name, found.markup);
      if (found.state === "failed") return page.replaceChildren(el("p", {}, found.error));
      const progress = (await ask("progress"))[state.side];
      if (progress && page.lastChild) page.lastChild.textContent = `Analyzing … ${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")} ranks read`;
      await new Promise((go) => setTimeout(go, 400));
      if (this.asked !== asked) return;
    }
  }

  // The markup is the report's own: the server escapes every name in it, and the page runs no script in it.
  put(page, name, markup) {
    const part = document.createElement("template");
    part.innerHTML = markup || "<p class='empty'>This run has nothing to show here.</p>";
    page.replaceChildren(...this.sides(name), part.content);
    page.scrollTop = 0;
    enliven(page);
  }

  sides(name) {
    if (this.session.sides.length < 2 || name === "Comparison") return [];
    const buttons = this.session.sides.map((side, i) =>
      el("button", { ariaPressed: String(i === state.side), on: { click: () => change({ side: i }) } }, `${"AB"[i]}: ${side.name}`));
    return [el("p", { className: "side" }, el("span", { className: "group" }, ...buttons))];
  }
}
