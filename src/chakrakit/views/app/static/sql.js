// A SELECT over the run's tables, as chakra query asks it.
import { ask } from "./api.js";
import { el } from "./dom.js";
import { state } from "./state.js";

const FIRST = "SELECT name, count(*) AS nodes, sum(duration_ns) / 1e6 AS ms\nFROM nodes WHERE rank = 0\nGROUP BY name ORDER BY ms DESC LIMIT 20";
const TABLES = "Tables: nodes, edges, collectives, calls, messages, ranks, groups. Ctrl + Enter runs it.";

export function showQuery(page) {
  const text = el("textarea", { id: "sql", rows: 6, spellcheck: false, value: page.dataset.sql || FIRST, ariaLabel: "SQL" });
  const result = el("div", { id: "rows" });
  const run = async () => {
    page.dataset.sql = text.value;
    result.replaceChildren(el("p", { className: "empty" }, "Asking …"));
    try {
      result.replaceChildren(...tableOf(await ask("query", { side: state.side, sql: text.value })));
    } catch (error) {
      result.replaceChildren(el("p", { className: "warning" }, error.message));
    }
  };
  text.addEventListener("keydown", (event) => { if (event.ctrlKey && event.key === "Enter") run(); });
  page.replaceChildren(el("p", { className: "empty" }, TABLES), text, el("p", {}, el("button", { id: "ask", on: { click: run } }, "Run")), result);
}

const tableOf = ({ columns, rows, more }) => [
  el("table", {}, el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", {}, c)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell)))))),
  more ? el("p", { className: "empty" }, `the first ${rows.length} rows`) : null,
].filter(Boolean);
