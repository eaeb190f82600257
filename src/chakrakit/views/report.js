// Tooltips, sortable tables, zoom and saving of charts. The page is complete without it.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const tip = document.getElementById("tip");
  document.addEventListener("mousemove", (event) => {
    const mark = event.target.closest("[data-tip]");
    tip.style.display = mark ? "block" : "none";
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  enliven(document);
});

// Gives life to what is below `root`; called again for parts that come later.
function enliven(root) {
  root.querySelectorAll("svg title").forEach((title) => {
    const mark = title.parentNode;
    mark.dataset.tip = title.textContent;
    title.remove(); // the browser's own tooltip would come on top
  });

  const value = (row, column) => {
    const text = row.cells[column].textContent;
    const number = Number(text.replaceAll(",", ""));
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  root.querySelectorAll("th").forEach((head) => head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const down = (head.dataset.order = head.dataset.order === "down" ? "up" : "down") === "down";
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, head.cellIndex), value(b, head.cellIndex)];
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return down ? -order : order;
    });
    body.append(...rows);
  }));

  // Ctrl and the wheel zoom a timeline around the pointer, dragging moves it, a double click shows all.
  root.querySelectorAll("svg g.zoom").forEach((group) => {
    const svg = group.ownerSVGElement, left = Number(group.dataset.left), width = svg.viewBox.baseVal.width - 10;
    let scale = 1, shift = 0;
    const clip = document.createElementNS(svg.namespaceURI, "clipPath");
    clip.id = "clip" + Math.random().toString(36).slice(2);
    const area = document.createElementNS(svg.namespaceURI, "rect");
    for (const [k, v] of Object.entries({ x: left, y: 0, width: width - left, height: 9999 })) area.setAttribute(k, v);
    clip.append(area);
    const outer = document.createElementNS(svg.namespaceURI, "g");
    outer.setAttribute("clip-path", `url(#${clip.id})`);
    group.replaceWith(outer);
    outer.append(group);
    svg.prepend(clip);
    const show = () => {
      shift = Math.min(0, Math.max(shift, (width - left) * (1 - scale)));
      group.setAttribute("transform", `translate(${left * (1 - scale) + shift} 0) scale(${scale} 1)`);
    };
    const at = (event) => (event.offsetX / svg.clientWidth) * svg.viewBox.baseVal.width - left;
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const before = scale;
      scale = Math.min(5000, Math.max(1, scale * Math.exp(-event.deltaY / 300)));
      shift = at(event) - (at(event) - shift) * (scale / before);
      show();
    }, { passive: false });
    svg.addEventListener("mousemove", (event) => {
      if (event.buttons !== 1) return;
      shift += (event.movementX / svg.clientWidth) * svg.viewBox.baseVal.width;
      show();
    });
    svg.addEventListener("dblclick", () => { scale = 1; shift = 0; show(); });
  });

  const saved = (svg) => {
    const copy = svg.cloneNode(true);
    const style = getComputedStyle(document.body);
    copy.querySelectorAll(".ink").forEach((e) => e.setAttribute("fill", "#1d2430"));
    copy.querySelectorAll(".track").forEach((e) => e.setAttribute("fill", "#f5f7f9"));
    copy.setAttribute("width", svg.viewBox.baseVal.width);
    copy.setAttribute("height", svg.viewBox.baseVal.height);
    copy.setAttribute("font-family", style.fontFamily);
    return new XMLSerializer().serializeToString(copy);
  };
  const download = (url, name) => Object.assign(document.createElement("a"), { href: url, download: name }).click();
  root.querySelectorAll("button.save").forEach((button) => button.addEventListener("click", () => {
    const figure = button.closest("figure"), svg = figure.querySelector("svg");
    const name = figure.querySelector("b").textContent.replace(/\W+/g, "_");
    const url = URL.createObjectURL(new Blob([saved(svg)], { type: "image/svg+xml" }));
    if (button.dataset.kind === "svg") return download(url, name + ".svg");
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.width * 3;
      canvas.height = image.height * 3;
      const draw = canvas.getContext("2d");
      draw.fillStyle = "#ffffff";
      draw.fillRect(0, 0, canvas.width, canvas.height);
      draw.drawImage(image, 0, 0, canvas.width, canvas.height);
      download(canvas.toDataURL("image/png"), name + ".png");
    };
    image.src = url;
  }));
}
