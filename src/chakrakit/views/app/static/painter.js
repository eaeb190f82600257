// Two ways to put rectangles, lines and texts somewhere: on a canvas, or into an SVG to keep.
import { svgEl } from "./dom.js";

const FONT = "system-ui, sans-serif";

export class CanvasPainter {
  constructor(canvas, width, height, scale) {
    this.context = canvas.getContext("2d");
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }
  rect(x, y, width, height, fill, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }
  frame(x, y, width, height, stroke, thick) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = thick;
    this.context.strokeRect(x, y, width, height);
  }
  curve(x0, y0, x1, y1, stroke, dashed) {
    const c = this.context, bend = Math.max(20, Math.abs(x1 - x0) / 3);
    c.strokeStyle = stroke;
    c.lineWidth = 1.6;
    c.setLineDash(dashed ? [5, 4] : []);
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.arc(x1, y1, 2.6, 0, 7);
    c.fillStyle = stroke;
    c.fill();
  }
  text(x, y, text, fill, size = 11, anchor = "start", weight = 400) {
    const c = this.context;
    c.font = `${weight} ${size}px ${FONT}`;
    c.textAlign = anchor === "middle" ? "center" : anchor;
    c.fillStyle = fill;
    c.fillText(text, x, y);
  }
  clip(x, y, width, height) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
  }
  unclip() { this.context.restore(); }
}

export class SvgPainter {
  constructor(width, height) {
    this.root = svgEl("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT });
    this.into = [this.root];
    this.clips = 0;
  }
  put(name, attributes, ...children) { this.into.at(-1).append(svgEl(name, attributes, ...children)); }
  rect(x, y, width, height, fill, alpha = 1) {
    this.put("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill, ...(alpha < 1 ? { "fill-opacity": short(alpha) } : {}) });
  }
  frame(x, y, width, height, stroke, thick) {
    this.put("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: "none", stroke, "stroke-width": thick });
  }
  curve(x0, y0, x1, y1, stroke, dashed) {
    const bend = Math.max(20, Math.abs(x1 - x0) / 3);
    const d = `M${short(x0)},${short(y0)} C${short(x0 + bend)},${short(y0)} ${short(x1 - bend)},${short(y1)} ${short(x1)},${short(y1)}`;
    this.put("path", { d, fill: "none", stroke, "stroke-width": 1.6, ...(dashed ? { "stroke-dasharray": "5 4" } : {}) });
    this.put("circle", { cx: short(x1), cy: short(y1), r: 2.6, fill: stroke });
  }
  text(x, y, text, fill, size = 11, anchor = "start", weight = 400) {
    this.put("text", { x: short(x), y: short(y), fill, "font-size": size, "text-anchor": anchor, "font-weight": weight }, clean(text));
  }
  clip(x, y, width, height) {
    const id = `clip${this.clips++}`;
    this.put("clipPath", { id }, svgEl("rect", { x, y, width, height }));
    const group = svgEl("g", { "clip-path": `url(#${id})` });
    this.into.at(-1).append(group);
    this.into.push(group);
  }
  unclip() { this.into.pop(); }
  toString() { return new XMLSerializer().serializeToString(this.root); }
}

const short = (number) => Math.round(number * 100) / 100;
// What XML cannot hold.
const clean = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
