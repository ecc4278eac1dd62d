// Helpers to build elements.

// element("td", { class: "number", onclick: … }, "text", child, …); attributes that are null or false are left out.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function link(text, label, onclick) {
  return element("button", { class: "link", type: "button", title: label, onclick }, text);
}

function byId(id) {
  return document.getElementById(id);
}
