// Edits of the run: each is a text that chakra transform or simulate takes; what they come to is shown at once.
import { ask, edited } from "./api.js";
import { byId, el } from "./dom.js";
import { timeText } from "./format.js";
import { change, state } from "./state.js";

const SLOWEST = 0.1, FASTEST = 10; // times as fast, at the ends of a slider
const number = (value) => String(+value.toPrecision(3));
const quoted = (name) => JSON.stringify(`${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);

// Ways to change something: the label, and the text of the edit for "so many times as fast".
// The pass takes the device's work unless it is told that of the host, as a CPU's recording has it.
const scaled = (field, value, host) => (times) => `edit{scale=${number(1 / times)}, ${host ? "on=host, " : ""}${field}=[${value}]}`;
export const faster = {
  class: (name, host) => ({ label: `class ${name}`, text: scaled("classes", name, host), times: 2 }),
  kernel: (name, host) => ({ label: name, text: scaled("names", quoted(name), host), times: 2 }),
  device: (rank) => ({ label: `device of rank ${rank}`, text: (times) => `--straggler ${rank}=${number(1 / times)}`, times: 2 }),
  link: (ends) => ({ label: `link ${ends}`, text: (times) => `--fault link:${ends}@0=${number(times)}`, times: 2 }),
};

export class Editor {
  constructor(session, onOutcome) {
    Object.assign(this, { session, onOutcome, past: [], outcome: null, busy: false });
    this.possible = session.sides.length === 1;
    this.original = session.sides[0];
  }

  // --- the list of edits --------------------------------------------------------------------------

  set(edits, remember = true) {
    if (remember) this.past.push(state.edits);
    change({ edits, editing: true });
  }

  add(text) { this.set([...state.edits, text]); }

  undo() {
    if (this.past.length) this.set(this.past.pop(), false);
    else if (state.edits.length) this.set([], false);
  }

  // A new list of edits: the side that they make comes or goes, and the schedule is asked for.
  changed() {
    edited.edits = state.edits;
    const { sides } = this.session;
    if (state.edits.length && sides.length === 1) sides.push({ ...this.original, name: "edited", edited: true });
    if (!state.edits.length && sides.length > 1) sides.pop();
    this.ask();
    this.show();
  }

  // One question at a time; the last edits are asked for when the answer before is there.
  async ask() {
    if (!state.edits.length) this.outcome = this.error = null;
    if (this.busy || !state.edits.length) return;
    this.busy = true;
    const asked = state.edits;
    try {
      this.outcome = await ask("edited", { edits: JSON.stringify(asked) });
      this.error = null;
      this.slowest = Math.max(this.slowest || 0, this.outcome.took_ms);
      this.last = asked;
    } catch (error) {
      this.error = error.message;
      this.outcome = null;
    }
    this.busy = false;
    if (state.edits !== asked) return this.ask();
    this.showOutcome();
    this.onOutcome(this.outcome);
  }

  // --- the panel ----------------------------------------------------------------------------------

  async show() {
    const box = byId("edits");
    byId("edit").setAttribute("aria-pressed", state.editing);
    box.hidden = !state.editing;
    if (!state.editing) return;
    if (box.dataset.edits !== JSON.stringify(state.edits) || !box.childElementCount) this.fill(box);
    this.showOutcome();
    if (!this.offered) {
      this.offered = await ask("offered").catch((error) => ({ error: error.message }));
      this.fill(box);
      this.showOutcome();
    }
  }

  fill(box) {
    box.dataset.edits = JSON.stringify(state.edits);
    box.replaceChildren(
      el("div", { className: "head" }, el("b", {}, "Edits"),
        el("button", { id: "undo", title: "Undo (U)", on: { click: () => this.undo() } }, "↶ Undo"),
        el("button", { title: "Close", on: { click: () => change({ editing: false }) } }, "✕")),
      el("div", { className: "part" }, el("p", { id: "outcome", role: "status" }),
        ...state.edits.map((text, i) => this.row(text, i)), ...this.chooser(), el("div", { id: "commands" })));
  }

  row(text, at) {
    const found = /^(edit\{scale=|--straggler \d+=|--fault link:.*@0=)([\d.eE+-]+)(.*)$/.exec(text);
    const drop = el("button", { title: "Remove", on: { click: () => this.set(state.edits.filter((_, i) => i !== at)) } }, "✕");
    if (!found) return el("div", { className: "edit" }, el("code", {}, text), drop);
    const [, before, value, after] = found, isRate = before.startsWith("--fault");
    const times = isRate ? +value : 1 / +value;
    const code = el("code", { title: text }, text);
    const shown = el("output", {}, `${number(times)}× as fast`);
    const slider = el("input", { type: "range", min: Math.log(SLOWEST), max: Math.log(FASTEST), step: 0.01, value: Math.log(times), ariaLabel: `how fast: ${text}` });
    slider.addEventListener("input", () => {
      const now = Math.exp(+slider.value), edits = [...state.edits];
      edits[at] = before + number(isRate ? now : 1 / now) + after;
      shown.textContent = `${number(now)}× as fast`;
      code.textContent = code.title = edits[at];
      if (!this.sliding) this.past.push(state.edits);
      this.sliding = true;
      byId("edits").dataset.edits = JSON.stringify(edits); // the sliders stay where they are
      change({ edits });
    });
    slider.addEventListener("change", () => { this.sliding = false; });
    return el("div", { className: "edit" }, code, drop, slider, shown);
  }

  chooser() {
    const { offered } = this;
    if (!offered) return [el("p", { className: "empty" }, "Looking what can be changed …")];
    if (offered.error) return [el("p", { className: "warning" }, offered.error)];
    const share = (part) => ` (${(100 * part).toFixed(1)} %)`;
    const groups = [
      ["Make a class of work faster", offered.classes.map(([n, s]) => [n + share(s), () => faster.class(n, offered.host).text(2)])],
      ["Make a kernel faster", offered.kernels.map(([n, s]) => [n + share(s), () => faster.kernel(n, offered.host).text(2)])],
      ["Move a group's calls to another stream", offered.groups.map((n) => [n, () => `comm{action=offload, stream=99, groups=[${n}]}`])],
      ["Remove a synchronization", offered.waits.map(([n, count]) => [`${n} (${count}×)`, () => `unsync{names=[${quoted(n)}]}`])],
      ["Change a device", [...Array(Math.min(offered.ranks, 64)).keys()].map((r) => [`rank ${r}`, () => faster.device(r).text(2)])],
      ["Change a link", offered.links.map((ends) => [ends, () => faster.link(ends).text(2)])],
      ["Change an algorithm", Object.entries(offered.algorithms).flatMap(([c, names]) => names.map((n) => [`${c}: ${n}`, () => `--algorithm ${c}=${n}`]))],
    ];
    const choice = el("select", { id: "choice", ariaLabel: "Add an edit" }, el("option", { value: "" }, "Add an edit …"),
      ...groups.filter(([, list]) => list.length).map(([title, list]) => {
        const group = el("optgroup", { label: title });
        group.append(...list.map(([name, text]) => el("option", { value: text() }, name.length > 60 ? name.slice(0, 59) + "…" : name)));
        return group;
      }));
    choice.addEventListener("change", () => { if (choice.value) this.add(choice.value); });
    const typed = el("input", { id: "typed", type: "text", placeholder: "or type one: edit{scale=0.5, phases=[backward]}", spellcheck: false, ariaLabel: "Type an edit" });
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter" && typed.value.trim()) this.add(typed.value.trim()); });
    return [el("p", {}, choice), el("p", {}, typed)];
  }

  showOutcome() {
    const line = byId("outcome"), commands = byId("commands");
    if (!line) return;
    if (this.error) return void line.replaceChildren(el("span", { className: "warning" }, this.error));
    if (!this.outcome || !state.edits.length) {
      commands.replaceChildren();
      return void line.replaceChildren("Choose what to change, here or at a selected node; U undoes.");
    }
    const { original, edited: now, took_ms, commands: lines } = this.outcome, change = 100 * (now / original - 1);
    line.replaceChildren(el("b", {}, `${timeText(original)} → ${timeText(now)}`), ` ${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} %`,
      el("small", {}, ` scheduled in ${took_ms.toFixed(0)} ms`));
    commands.replaceChildren(el("h4", {}, "The same from a shell"), el("pre", {}, lines.join("\n")),
      el("button", { on: { click: () => navigator.clipboard?.writeText(lines.join("\n")) } }, "Copy"));
  }

  // --- edits that a node offers -------------------------------------------------------------------

  forNode(node) {
    if (!this.possible) return null;
    const offers = [], group = node.attributes?.pg_name;
    if (node.kind === "communication" && group) offers.push(["Move its group to another stream", `comm{action=offload, stream=99, groups=[${group}]}`]);
    if (["compute", "copy", "host"].includes(node.kind)) offers.push(["Make it faster", faster.kernel(node.fullName || node.name, node.host).text(2)]);
    if (node.parents?.shown?.some((p) => p.edge === "sync")) offers.push(["Do not wait here", `unsync{nodes=[${node.id}]}`]);
    if (!offers.length) return null;
    return el("p", { className: "offers" }, ...offers.map(([label, text]) => el("button", { title: text, on: { click: () => this.add(text) } }, label)));
  }
}
