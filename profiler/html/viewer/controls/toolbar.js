// The bars above the charts: tokens, colours, rows, roles, switches, and the legend. They are drawn anew from the
// app's state whenever it changes.

const kColourings = ["state", "op", "layer"];
const kGroupings = ["sm", "role"];
const kGroupingNames = { sm: "SM", role: "role" };
const kSwitches = [
  ["path", "Critical path", "p"],
  ["tracks", "Figures", "y"],
  ["side", "Panel", "e"],
];

function toggleButton(text, pressed, keys, onclick) {
  return element("button", { type: "button", "aria-pressed": `${pressed}`, "aria-keyshortcuts": keys,
                             title: keys && `key ${keys.toUpperCase()}`, onclick }, text);
}
function groupName(text) {
  return element("span", { class: "name" }, text);
}

// Buttons are kept where their group's content is the same, so that the keyboard's focus stays on them.
function refill(group, children) {
  const focused = [...group.children].indexOf(document.activeElement);
  group.replaceChildren(...children);
  if (focused >= 0) group.children[focused]?.focus();
}

function fillToolbar(app) {
  const { settings } = app;
  refill(byId("passes"), tokenPicker(app));
  refill(byId("colours"), [groupName("Colour"), ...kColourings.map((by) =>
    toggleButton(by, settings.colourBy === by, "c", () => app.colourBy(by)))]);
  refill(byId("grouping"), [groupName("Rows by"), ...kGroupings.map((by) =>
    toggleButton(kGroupingNames[by], settings.grouping === by, "g", () => app.groupBy(by)))]);
  refill(byId("roles"), [groupName("Roles"), ...app.roles.map((name, role) =>
    toggleButton(name, settings.roles[role], `${role + 1}`, () => app.toggleRole(role)))]);
  const ranks = Math.max(...app.panes.map((pane) => pane.trace.ranks));
  const ofRank = (_, rank) =>
    toggleButton(`GPU ${rank}`, !settings.folded[rank], rank === app.currentRank ? "k" : null, () => app.toggleRank(rank));
  refill(byId("ranks"), ranks > 1 ? [groupName("GPUs"), ...Array.from({ length: ranks }, ofRank)] : []);
  const switches = [...kSwitches];
  if (app.panes.length > 1) switches.push(["beside", "Side by side", "o"]);
  const keys = element("button", { type: "button", "aria-keyshortcuts": "?", title: "key ?",
                                   onclick: () => app.toggleHelp() }, "Keys");
  refill(byId("switches"), [
    ...switches.map(([name, text, key]) => toggleButton(text, settings[name], key, () => app.toggle(name))),
    toggleButton("Dark", app.theme.dark, "t", () => app.toggleTheme()),
    keys,
  ]);
}

function tokenPicker(app) {
  const { trace, token } = app.panes[0];
  const step = (by, text, key) => element("button", {
    type: "button", "aria-label": by < 0 ? "token before" : "next token", title: `key ${key}`, "aria-keyshortcuts": key,
    disabled: !app.hasToken(token + by), onclick: () => app.stepToken(by),
  }, text);
  const choose = (event) => app.showTokenNumber(Number(event.target.value));
  const select = element("select", { "aria-label": "Token", onchange: choose },
    ...trace.windows.map((window, w) => element("option", { value: w, selected: w === token }, tokenName(trace, w))));
  return [groupName("Token"), step(-1, "‹", "["), select, step(1, "›", "]")];
}

// "2 of 3: 717.7 µs, slowest"
function tokenName(trace, token) {
  const { windows } = trace;
  const length = formatTime(windows[token].end - windows[token].begin);
  const slowest = windows.length > 1 && token === trace.slowestWindow ? ", slowest" : "";
  return `${token + 1} of ${windows.length}: ${length}${slowest}`;
}

// Pressing an entry shows its slices alone; pressing it again, all.
function fillLegend(app) {
  const { names, colours } = app.panes[0].colouring;
  refill(byId("legend"), names.map((name, category) => {
    const swatch = element("i", { style: `background: ${cssColour(colours[category])}` });
    const button = element("button", { type: "button", "aria-pressed": `${app.alone === category}`,
                                       onclick: () => app.showAlone(category) }, swatch, name);
    return button;
  }));
}

function fillFacts(app) {
  const { head } = app.panes[0].trace;
  const title = app.panes.length > 1 ? `${app.panes[0].name} and ${app.panes[1].name}` : app.panes[0].name;
  byId("title").textContent = title;
  document.title = `${title} – Serval profile`;
  if (app.panes.length > 1) return;
  byId("facts").replaceChildren(...factsOf(head));
  byId("facts").title = factsInWords(head);
}

function factList({ source, machine, metadata }) {
  return [["backend", source], ["machine", machineInWords(machine)], ...Object.entries(metadata)];
}
function machineInWords({ name, sms, ranks = 1 }) {
  return ranks > 1 ? `${ranks} × ${name}, ${sms / ranks} SMs each` : `${name}, ${sms} SMs`;
}
function factsOf(head) {
  return factList(head).flatMap(([name, value], i) => [i ? " · " : "", `${name} `, element("b", {}, value)]);
}
function factsInWords(head) {
  return factList(head).map(([name, value]) => `${name}: ${value}`).join("\n");
}
