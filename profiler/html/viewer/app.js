// The page: its state, the actions that change it, and when it is drawn. Keys, pointer and buttons call its
// methods, or those of its view (time) and navigator (from slice to slice).

const kRowHeightStep = 2;
const kFineBelow = 6; // rows lower than this change by one pixel
const kShareOfView = 0.35; // share of the view that a slice takes after zooming to it

class App {
  // `diff`: null unless there are two traces.
  constructor(traces, diff) {
    this.diff = diff;
    this.roles = traces[0].roles;
    this.settings = {
      colourBy: "state", grouping: "role",
      roles: this.roles.map((_, role) => traces.some((trace) => trace.hasRole(role))),
      rowHeights: { sm: "readable", role: "fit" },
      folded: [], // [GPU] true if its rows are hidden
      path: true, tracks: true, side: true, beside: false,
    };
    this.alone = null; // the only entry of the legend that is shown
    this.selection = null; // { pane, slice }
    this.hovered = null; // { pane, slice, time }
    this.range = null; // { begin, end }
    this.tab = diff ? "diff" : "report";
    this.panes = makePanes(traces);
    this.search = new Search(this.panes);
    this.view = new TimeView(this.panes, () => this.redraw());
    this.navigator = new Navigator(this);
    this.theme = new Theme(() => this.#repaint());
    this.#listen();
    fillHelp(byId("help"));
    fillFacts(this);
    this.#applySettings();
    this.view.showToken({ smooth: false });
    this.focusChart();
  }

  #listen() {
    this.keyboard = new Keyboard(this);
    const resized = new ResizeObserver(() => this.#layOut());
    for (const pane of this.panes) {
      resized.observe(pane.chart);
      new Pointer(this, pane);
    }
    byId("search").addEventListener("input", (event) => this.#search(event.target.value));
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.clearSearch();
    });
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.navigator.stepHit(1);
      this.focusChart();
    });
  }

  // --- drawing

  // Draws on the next frame: everything, or only what lies over the charts.
  redraw({ all = true } = {}) {
    this.stale = all || this.stale === "all" ? "all" : "overlay";
    this.frame ??= requestAnimationFrame((ms) => this.#drawFrame(ms));
  }

  #drawFrame(ms) {
    this.frame = null;
    const all = this.stale === "all";
    this.stale = null;
    if (!this.view.now) return;
    const moving = this.view.advance(ms);
    for (const pane of this.panes) {
      if (!pane.width || !pane.height) continue;
      pane.setView(this.view.now);
      if (all) pane.drawBase(this.theme);
      drawOverlay(pane, { path: this.settings.path, selection: this.selection, hover: this.hovered, range: this.range,
                          cursor: this.hovered?.time ?? null, marks: this.search.marks });
    }
    this.#showStatus();
    if (moving) this.redraw();
  }

  #showStatus() {
    const { begin, end } = this.view.now;
    byId("status-window").textContent = `View ${formatTime(begin)} to ${formatTime(end)} (${formatTime(end - begin)})`;
    byId("status-cursor").textContent = this.hovered ? `Pointer ${formatTime(this.hovered.time)}` : "";
    byId("status-range").textContent = this.range ? `Range ${formatTime(this.range.end - this.range.begin)}` : "";
    byId("search-count").textContent = this.search.status;
  }

  #layOut() {
    for (const pane of this.panes) {
      pane.measure(this.settings);
      pane.arrange(this.settings);
    }
    this.redraw();
  }

  // Colours of all slices, after a change of theme, colouring, search or legend.
  #repaint() {
    for (const pane of this.panes) {
      pane.paint(new Colouring(pane.trace, this.settings.colourBy, this.theme), (slice, category) =>
        (this.alone === null || this.alone === category) && this.search.matches(pane, pane.trace.execution[slice]));
    }
    fillToolbar(this);
    fillLegend(this);
    this.redraw();
  }

  #applySettings() {
    byId("side").hidden = !this.settings.side;
    byId("panes").classList.toggle("beside", this.settings.beside);
    this.#layOut();
    this.#repaint();
    fillPanel(this);
  }

  announce(text) {
    byId("announce").textContent = text;
  }
  focusChart() {
    this.current.pane.chart.focus({ preventScroll: true });
  }

  // --- time

  // The centre is the pointer, the selection, or the middle of the view.
  zoom(factor) {
    const { begin, end } = this.view.wanted;
    const selected = this.selection && middleOf(this.#spanOf(this.selection));
    const anchor = [this.hovered?.time, selected].find((time) => time != null && this.view.contains(time));
    this.view.zoom(factor, anchor ?? middleOf({ begin, end }));
  }
  zoomToSelection() {
    if (this.selection) this.view.showSpan(this.#spanOf(this.selection), kShareOfView);
    else if (this.range) this.view.showSpan(this.range, 1);
  }
  #spanOf({ pane, slice }) {
    return { begin: pane.relative(pane.trace.begin[slice]), end: pane.relative(pane.trace.finish[slice]) };
  }

  hasToken(token) {
    return token >= 0 && this.panes.some((pane) => token < pane.trace.windows.length);
  }
  stepToken(by) {
    this.showTokenNumber(this.panes[0].token + by);
  }
  showTokenNumber(token) {
    if (!this.hasToken(token)) return;
    for (const pane of this.panes) pane.token = Math.min(token, pane.trace.windows.length - 1);
    this.selection = this.range = null;
    this.search.run(this.search.query.text);
    this.#repaint();
    fillPanel(this);
    this.view.showToken({ smooth: false });
    this.announce(`token ${token + 1}, ${formatTime(this.panes[0].length)}`);
  }

  // --- rows

  scroll(pane, top) {
    pane.scrollTo(top);
    this.redraw();
  }
  scrollPage(by) {
    const { pane } = this.current;
    this.scroll(pane, pane.scroll + by * pane.rowsArea.height * 0.8);
  }
  changeRowHeight(by) {
    const { rowLayout, ratio } = this.panes[0];
    const height = rowLayout.height / ratio;
    const step = height < kFineBelow ? 1 : kRowHeightStep;
    this.#setRowHeight(Math.min(kMaxRowHeight, Math.max(1, Math.round(height + by * step))));
  }
  fitRows() {
    this.#setRowHeight("fit");
  }
  #setRowHeight(height) {
    this.settings.rowHeights[this.settings.grouping] = height;
    this.#keepingInSight(() => this.#layOut());
  }
  // After a change of the rows, the selected one, or else the middle one, stays in sight.
  #keepingInSight(change) {
    const { pane, slice } = this.current;
    const row = slice < 0 ? pane.rowAt(pane.rowsArea.y + pane.rowsArea.height / 2) : pane.trace.rowOfSlice(slice);
    change();
    if (row >= 0) pane.showRow(row);
    this.redraw();
  }
  showSm(pane, sm) {
    this.settings.grouping = "sm";
    this.#applySettings();
    this.#unfold(pane.trace.rankOf(sm));
    pane.scrollTo(pane.rowLayout.groups.find(({ key }) => key === sm).top);
    this.redraw();
    this.announce(pane.trace.smName(sm));
  }

  // --- selection

  // Keys act on this: the selection, or the pane that has the focus.
  get current() {
    const focused = this.panes.find((pane) => pane.chart === document.activeElement);
    return this.selection ?? { pane: focused ?? this.panes[0], slice: -1 };
  }
  select(pane, slice) {
    this.selection = slice < 0 ? null : { pane, slice };
    if (this.selection) {
      this.tab = "selection";
      this.announce(sliceInWords(pane, slice));
    }
    fillPanel(this);
    this.redraw({ all: false });
  }
  // Selects it and brings it into sight.
  reveal(pane, slice) {
    if (slice < 0) return;
    const row = pane.trace.rowOfSlice(slice);
    const role = row % this.roles.length;
    if (!this.settings.roles[role]) this.toggleRole(role);
    this.#unfold(pane.trace.rankOfRow(row));
    this.select(pane, slice);
    pane.showRow(row);
    this.view.bringIntoView(this.#spanOf(this.selection), kShareOfView);
    this.redraw();
  }
  setRange(begin, end) {
    this.range = { begin, end };
    this.tab = "selection";
    fillPanel(this);
    this.redraw({ all: false });
  }
  clearRange() {
    this.range = null;
    fillPanel(this);
    this.redraw({ all: false });
  }
  markRange() {
    if (!this.selection) return;
    const { begin, end } = this.#spanOf(this.selection);
    this.setRange(begin, end);
  }
  escape() {
    if (!this.search.query.isEmpty) this.clearSearch();
    else if (this.range) this.clearRange();
    else if (this.alone !== null) this.showAlone(this.alone);
    else this.select(this.current.pane, -1);
  }
  // `what`: { pane, slice, time } or null; `at`: where the pointer is.
  hover(what, at = null) {
    this.hovered = what;
    showTip(what, at);
    this.redraw({ all: false });
  }

  // --- search

  focusSearch() {
    byId("search").focus();
    byId("search").select();
  }
  searchFor(query) {
    byId("search").value = query;
    this.#search(query);
  }
  clearSearch() {
    this.searchFor("");
    this.focusChart();
  }
  #search(query) {
    this.search.run(query);
    this.#repaint();
    this.announce(this.search.status);
  }

  // --- settings

  colourBy(by) {
    this.settings.colourBy = by;
    this.alone = null;
    this.#repaint();
    this.announce(`coloured by ${by}`);
  }
  cycleColour() {
    this.colourBy(kColourings[(kColourings.indexOf(this.settings.colourBy) + 1) % kColourings.length]);
  }
  showAlone(category) {
    this.alone = this.alone === category ? null : category;
    this.#repaint();
  }
  groupBy(by) {
    this.settings.grouping = by;
    this.#keepingInSight(() => this.#applySettings());
    this.announce(`rows by ${kGroupingNames[by]}`);
  }
  cycleGrouping() {
    this.groupBy(kGroupings[(kGroupings.indexOf(this.settings.grouping) + 1) % kGroupings.length]);
  }
  toggleRole(role) {
    const roles = this.settings.roles.map((on, r) => (r === role ? !on : on));
    if (!roles.some(Boolean)) return;
    this.settings.roles = roles;
    this.#keepingInSight(() => this.#applySettings());
  }
  // The GPU of the selection, or else the first.
  get currentRank() {
    const { pane, slice } = this.current;
    return slice < 0 ? 0 : pane.trace.rankOfRow(pane.trace.rowOfSlice(slice));
  }
  // Hides or shows a GPU's rows, if there are several GPUs.
  toggleRank(rank) {
    if (this.panes.every((pane) => pane.trace.ranks === 1)) return this.announce("one GPU");
    this.settings.folded[rank] = !this.settings.folded[rank];
    this.#applySettings();
    this.announce(`GPU ${rank} ${this.settings.folded[rank] ? "folded" : "unfolded"}`);
  }
  #unfold(rank) {
    if (this.settings.folded[rank]) this.toggleRank(rank);
  }
  // path, tracks, side, beside
  toggle(name) {
    this.settings[name] = !this.settings[name];
    this.#applySettings();
  }
  toggleTheme() {
    this.theme.toggle();
  }
  toggleHelp() {
    const help = byId("help");
    if (help.open) help.close();
    else help.showModal();
  }
  showTab(tab) {
    if (tab === "diff" && !this.diff) return;
    this.tab = tab;
    if (!this.settings.side) this.toggle("side");
    fillPanel(this);
  }
}

function middleOf({ begin, end }) {
  return (begin + end) / 2;
}

function makePanes(traces) {
  byId("panes").replaceChildren();
  const names = shortNames(traces.map((trace) => trace.head.name));
  return traces.map((trace, t) => {
    const host = element("section", { class: "pane", "aria-label": names[t] });
    if (traces.length > 1) {
      const facts = { title: factsInWords(trace.head) };
      host.append(element("h2", facts, element("b", {}, names[t]), ...factsOf(trace.head)));
    }
    byId("panes").append(host);
    return new Pane(trace, names[t], host);
  });
}

// Names of files, without their folders if they differ without them.
function shortNames(names) {
  const short = names.map((name) => name.split("/").at(-1));
  return new Set(short).size === names.length ? short : names;
}
