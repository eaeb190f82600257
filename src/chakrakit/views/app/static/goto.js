// Marks of charts lead back to the timeline: to a rank, a stretch of time, a search.
import { byId } from "./dom.js";
import { keyOf } from "./layout.js";
import { change, state } from "./state.js";

// Puts markup of the server's into a page; every name in it is escaped, and the page runs no script in it.
export function put(page, markup, origin, ...before) {
  const part = document.createElement("template");
  part.innerHTML = markup;
  page.replaceChildren(...before, part.content);
  page.scrollTop = 0;
  enliven(page);
  page.querySelectorAll("[data-goto]").forEach((mark) => {
    mark.setAttribute("tabindex", 0);
    mark.setAttribute("role", "link");
    mark.addEventListener("click", () => goTo(mark.dataset.goto, origin));
    mark.addEventListener("keydown", (event) => { if (event.key === "Enter") goTo(mark.dataset.goto, origin); });
  });
}

// `origin` is when the run begins; `at` is a stretch of the run's own time.
function goTo(text, origin) {
  const given = new URLSearchParams(text), rank = given.get("rank"), query = given.get("q");
  const [begin, end] = (given.get("at") || "").split(",").map(Number);
  if (query !== null) byId("query").value = query;
  change({
    tab: "Timeline",
    ...(rank === null ? {} : { open: new Set([...state.open, keyOf(state.side, +rank)]) }),
    ...(query === null ? {} : { query }),
    ...(end > begin ? around(begin - origin, end - origin) : {}),
  });
}

// A stretch with as much room on both sides.
const around = (begin, end) => ({ from: begin - (end - begin), to: end + (end - begin) });
