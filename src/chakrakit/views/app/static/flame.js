// Device time of a rank by module, operator and kernel, for the stretch that the timeline shows.
import { ask } from "./api.js";
import { el, svgEl } from "./dom.js";
import { cut, inkOn } from "./draw.js";
import { timeText } from "./format.js";
import { state } from "./state.js";
import { stretch, stretchText } from "./stretch.js";

const WIDTH = 1080, HIGH = 20;

export async function showFlame(page, session, find) {
  const ranks = session.sides[state.side].folds, shown = ranks.find(([first]) => first === state.selected?.rank) || ranks[0];
  const window = await stretch(session);
  const into = el("div", { id: "flame" });
  const choose = el("select", { id: "flame-rank", ariaLabel: "Rank", on: { change: () => draw(+choose.value) } },
    ...ranks.map(([first, , text]) => el("option", { value: first, selected: first === shown?.[0] }, text)));
  const draw = async (rank) => {
    into.replaceChildren(el("p", { className: "empty wait" }, "Adding up …"));
    try {
      new Flame(into, session, await ask("flame", { side: state.side, rank, ...window }), find);
    } catch (error) {
      into.replaceChildren(el("p", { className: "warning" }, error.message));
    }
  };
  page.replaceChildren(el("p", {}, el("label", {}, "Device time, and waiting, of ", choose), ` ${stretchText(window)}. A click, or Enter, widens a call; Shift shows it in the timeline.`), into);
  if (shown) await draw(shown[0]);
}

class Flame {
  constructor(into, session, calls, find) {
    Object.assign(this, { into, session, calls, find });
    this.begin = begins(calls);
    this.show(0);
  }

  // One call over the whole width, those around it above, those inside it below.
  show(root) {
    const { calls, begin } = this, total = calls.time[root] || 1, around = above(calls, root);
    const inside = [...calls.name.keys()].filter((i) => i >= root && (i === root || i < endOf(calls, root)));
    const deepest = Math.max(...inside.map((i) => calls.depth[i]));
    const svg = svgEl("svg", { viewBox: `0 0 ${WIDTH} ${(deepest + 1) * HIGH}`, role: "img", "font-family": "system-ui, sans-serif", "font-size": 11 });
    around.forEach((i) => svg.append(this.box(i, 0, WIDTH, 0.45)));
    inside.forEach((i) => {
      const wide = (calls.time[i] / total) * WIDTH;
      if (wide > 0.4) svg.append(this.box(i, ((begin[i] - begin[root]) / total) * WIDTH, wide, 1));
    });
    this.into.replaceChildren(svg);
    if (root) svg.querySelector(`[data-call="${root}"]`).focus({ preventScroll: true });
    enliven(this.into);
  }

  box(i, x, wide, alpha) {
    const { calls, session } = this, y = calls.depth[i] * HIGH, fill = session.colors[calls.kind[i]] || "#999999";
    const share = ((100 * calls.time[i]) / (calls.time[0] || 1)).toFixed(1);
    const made = svgEl("g", { tabindex: 0, role: "button", class: "call" },
      svgEl("rect", { x, y, width: Math.max(wide - 0.6, 0.4), height: HIGH - 1.5, rx: 2, fill, "fill-opacity": alpha }),
      ...(wide > 30 ? [svgEl("text", { x: x + 4, y: y + 13, fill: inkOn(fill) }, cut(calls.name[i], Math.floor((wide - 6) / 6)))] : []));
    Object.assign(made.dataset, { call: i, tip: `${calls.name[i]}: ${timeText(calls.time[i])}, ${share} %, ${calls.count[i].toLocaleString("en")}×` });
    const act = (event) => (event.shiftKey ? this.find(calls.name[i]) : this.show(i));
    made.addEventListener("click", act);
    made.addEventListener("keydown", (event) => { if (event.key === "Enter") act(event); });
    return made;
  }
}

// Where each call begins on the axis of time: after those before it on its level, inside the one around it.
function begins({ depth, time }) {
  const next = [0];
  return depth.map((d, i) => {
    const at = next[d] ?? 0;
    next[d] = at + time[i];
    next[d + 1] = at;
    return at;
  });
}

function endOf({ depth }, root) {
  const end = depth.findIndex((d, i) => i > root && d <= depth[root]);
  return end < 0 ? depth.length : end;
}

function above({ depth }, root) {
  const out = [];
  for (let i = root, least = depth[root]; i >= 0; i--) if (depth[i] < least) { out.push(i); least = depth[i]; }
  return out;
}
