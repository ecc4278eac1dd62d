// The panel at the side: its tabs, and the content of the open one.

const kTabs = [
  ["selection", "Selection", "i", showSelection],
  ["report", "Report", "r", showReport],
  ["diff", "Comparison", "v", showDiff],
];

function fillPanel(app) {
  const tabs = kTabs.filter(([name]) => name !== "diff" || app.diff);
  refill(byId("tabs"), tabs.map(([name, text, key]) =>
    element("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", "aria-selected": `${name === app.tab}`,
      "aria-keyshortcuts": key, title: `key ${key.toUpperCase()}`, onclick: () => app.showTab(name),
    }, text)));
  const panel = byId("panel");
  panel.setAttribute("aria-labelledby", `tab-${app.tab}`);
  panel.dataset.tab = app.tab;
  const [, , , show] = tabs.find(([name]) => name === app.tab);
  show(app, panel);
}
