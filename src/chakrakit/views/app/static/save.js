// What is shown, as a file: SVG, PNG, and the window for Perfetto.
import { byId, el } from "./dom.js";
import { CanvasPainter, SvgPainter } from "./painter.js";
import { state } from "./state.js";

const PERFETTO = "https://ui.perfetto.dev";
const LIGHT = { paper: "#ffffff", tint: "#f5f7f9", line: "#dfe3e8", ink: "#1d2430", soft: "#5c6675", bad: "#d55e00" };

export function download(content, type, name) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// Pictures to keep are on white, whatever the screen is.
const still = (timeline, painter) => Object.assign(timeline.picture(painter), { theme: LIGHT });

export function saveSvg(timeline, name) {
  const painter = new SvgPainter(timeline.scroller.clientWidth, timeline.scroller.clientHeight);
  still(timeline, painter).draw();
  download(painter.toString(), "image/svg+xml", `${name}.svg`);
}

export function savePng(timeline, name) {
  const canvas = document.createElement("canvas");
  still(timeline, new CanvasPainter(canvas, timeline.scroller.clientWidth, timeline.scroller.clientHeight, 3)).draw();
  canvas.toBlob((blob) => download(blob, "image/png", `${name}.png`));
}

export async function windowFile(timeline, side) {
  const { rows } = timeline.picture(null);
  const ranks = [...new Set(rows.filter((r) => r.side === side).map((r) => r.rank))];
  const asked = new URLSearchParams({ side, ranks, from: Math.round(state.from), to: Math.round(state.to), width: 1 });
  const response = await fetch(`/api/perfetto?${asked}`);
  if (!response.ok) throw new Error(await response.text());
  return response.arrayBuffer();
}

// Perfetto takes a trace by message, once it answers; where it does not, the file is downloaded instead.
export async function openInPerfetto(timeline, side, name) {
  const other = open(PERFETTO);
  const buffer = await windowFile(timeline, side);
  const answered = other && (await new Promise((done) => {
    const listen = (event) => event.source === other && event.data === "PONG" && finish(true);
    const ping = setInterval(() => other.postMessage("PING", PERFETTO), 200);
    const late = setTimeout(() => finish(false), 10_000);
    const finish = (came) => { clearInterval(ping); clearTimeout(late); removeEventListener("message", listen); done(came); };
    addEventListener("message", listen);
  }));
  if (answered) other.postMessage({ perfetto: { buffer, title: name } }, PERFETTO);
  else {
    other?.close();
    download(buffer, "application/octet-stream", `${name}.pftrace`);
    byId("status").textContent = "Perfetto did not answer: downloaded the window instead";
  }
}
