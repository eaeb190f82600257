// The machine as a map, each link as busy as it was in the stretch that the timeline shows.
import { ask } from "./api.js";
import { el } from "./dom.js";
import { put } from "./goto.js";
import { state } from "./state.js";
import { stretch } from "./stretch.js";

export async function showNetwork(page, session) {
  page.replaceChildren(el("p", { className: "empty wait" }, "Adding up …"));
  try {
    put(page, (await ask("network", { side: state.side, ...(await stretch(session)) })).markup, 0);
  } catch (error) {
    page.replaceChildren(el("p", { className: "warning" }, error.message));
  }
}
