// Small elements. Names from a trace only ever become text, never markup.
export const byId = (id) => document.getElementById(id);

export function el(name, given = {}, ...children) {
  const { on = {}, data = {}, ...attributes } = given;
  const made = Object.assign(document.createElement(name), attributes);
  Object.entries(on).forEach(([event, act]) => made.addEventListener(event, act));
  Object.assign(made.dataset, data);
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

export function svgEl(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
}

export const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
