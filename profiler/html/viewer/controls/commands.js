// Every action and its keys, once: key presses are looked up here, and the help lists it.

const kPanStep = 0.2;
const kZoomStep = 1.6;
const kCommands = [
  ["Move", [
    [["w", "+", "="], "zoom in, about the pointer or the selection", (app) => app.zoom(1 / kZoomStep)],
    [["s", "-"], "zoom out", (app) => app.zoom(kZoomStep)],
    [["a"], "pan to the left", (app) => app.view.pan(-kPanStep)],
    [["d"], "pan to the right", (app) => app.view.pan(kPanStep)],
    [["PageUp"], "scroll up", (app) => app.scrollPage(-1)],
    [["PageDown"], "scroll down", (app) => app.scrollPage(1)],
    [["f"], "zoom to the selection, or to the range", (app) => app.zoomToSelection()],
    [["0", "Home"], "the whole token", (app) => app.view.showToken()],
    [["9"], "the whole trace", (app) => app.view.showTrace()],
    [["["], "the token before", (app) => app.stepToken(-1)],
    [["]"], "the next token", (app) => app.stepToken(1)],
  ]],
  ["Select", [
    [["ArrowLeft"], "the slice before in the row", (app) => app.navigator.stepSlice(-1)],
    [["ArrowRight"], "the next slice in the row", (app) => app.navigator.stepSlice(1)],
    [["ArrowUp"], "the row above", (app) => app.navigator.stepRow(-1)],
    [["ArrowDown"], "the row below", (app) => app.navigator.stepRow(1)],
    [[","], "back along the critical path", (app) => app.navigator.stepPath(-1)],
    [["."], "on along the critical path", (app) => app.navigator.stepPath(1)],
    [["u"], "what it waited for", (app) => app.navigator.toProducer()],
    [["j"], "what waited for it", (app) => app.navigator.toWaiter()],
    [["m"], "mark the selection's time as the range", (app) => app.markRange()],
    [["x"], "the same instruction in the other trace", (app) => app.navigator.toOtherPane()],
    [["Escape"], "let go of search, range, selection", (app) => app.escape()],
  ]],
  ["Search", [
    [["/"], "search instructions", (app) => app.focusSearch()],
    [["Enter", "n"], "next hit", (app) => app.navigator.stepHit(1)],
    [["N"], "hit before", (app) => app.navigator.stepHit(-1)],
  ]],
  ["Show", [
    [["c"], "colour by state, op, layer", (app) => app.cycleColour()],
    [["g"], "rows by SM or by role", (app) => app.cycleGrouping()],
    [["k"], "fold or unfold the selection's GPU", (app) => app.toggleRank(app.currentRank)],
    [["1", "2", "3", "4", "5"], "a role's rows on or off", (app, key) => app.toggleRole(Number(key) - 1)],
    [["l"], "higher rows", (app) => app.changeRowHeight(1)],
    [["h"], "lower rows", (app) => app.changeRowHeight(-1)],
    [["z"], "rows as high as they fit", (app) => app.fitRows()],
    [["p"], "critical path on or off", (app) => app.toggle("path")],
    [["y"], "figures under the chart on or off", (app) => app.toggle("tracks")],
    [["i"], "panel: the selection", (app) => app.showTab("selection")],
    [["r"], "panel: the report", (app) => app.showTab("report")],
    [["v"], "panel: the comparison", (app) => app.showTab("diff")],
    [["e"], "panel on or off", (app) => app.toggle("side")],
    [["o"], "two traces: under or beside each other", (app) => app.toggle("beside")],
    [["t"], "dark or light", (app) => app.toggleTheme()],
    [["?"], "this list", (app) => app.toggleHelp()],
  ]],
];
const kMouse = [
  ["drag", "pan"],
  ["wheel", "scroll; with shift, pan"],
  ["ctrl wheel", "zoom"],
  ["alt wheel", "height of rows"],
  ["click", "select an instruction; on a GPU's name, fold its rows"],
  ["double click", "zoom to it"],
  ["shift drag", "mark a range, as a drag on the ruler does"],
];
const kKeyNames = {
  ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", PageUp: "Page ↑", PageDown: "Page ↓",
  Escape: "Esc", N: "⇧ N",
};
// Keys that a focused button, list or panel needs for itself.
const kKeysOfControls = ["Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home"];

class Keyboard {
  constructor(app) {
    this.commands = new Map();
    for (const [, commands] of kCommands) {
      for (const [keys, , run] of commands) for (const key of keys) this.commands.set(key, run);
    }
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || Keyboard.#isTaken(event)) return;
      const run = this.commands.get(event.key) ?? this.commands.get(event.key.toLowerCase());
      if (!run) return;
      event.preventDefault();
      run(app, event.key);
    });
  }

  static #isTaken({ target, key }) {
    if (target.closest("dialog")) return key !== "?";
    if (target.closest("input, select, textarea")) return true;
    return target.closest("button, .panel") !== null && kKeysOfControls.includes(key);
  }
}

function fillHelp(dialog) {
  const entry = (keys, label) => [element("dt", {}, ...keys), element("dd", {}, label)];
  const shown = (name) => (name >= "a" && name <= "z" ? name.toUpperCase() : name);
  const key = (name) => element("kbd", {}, kKeyNames[name] ?? (name.length === 1 ? shown(name) : name));
  const spaced = (keys) => keys.flatMap((name, i) => (i ? [" ", key(name)] : [key(name)]));
  const section = (title, entries) =>
    element("section", {}, element("h3", {}, title), element("dl", {}, ...entries.flat()));
  const group = ([title, commands]) =>
    section(title, commands.map(([keys, label]) => entry(spaced(keys), label)));
  dialog.replaceChildren(
    element("h2", { id: "help-title" }, "Keys"),
    element("div", { class: "keys" },
      ...kCommands.map(group),
      section("Mouse", kMouse.map(([gesture, label]) => entry([element("kbd", {}, gesture)], label))),
    ),
    element("form", { method: "dialog" }, element("button", {}, "Close")),
  );
}
