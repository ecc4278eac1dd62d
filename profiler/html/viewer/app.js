// The page: its state, what changes it, and when it is drawn. Every action of keys, pointer and buttons is a method.

const kNearestView = 20; // ns: as far as one can zoom in
const kBeyondToken = 0.02; // of a token's length, at both sides of it
const kSmoothMs = 130;
const kRowHeights = { sm: 13, role: null }; // CSS pixels; null: as high as they fit
const kRowHeightStep = 2;
const kLeastSlice = 0.35; // of the view: how much a slice that was zoomed to takes

class App {
  // `diff`: of two traces, else null.
  constructor(traces, diff) {
    this.settings = {
      colourBy: "state", grouping: "role", roles: traces[0].roles.map(() => true), rowHeights: { ...kRowHeights },
      path: true, tracks: true, side: true, beside: false,
    };
    this.alone = null;
    this.selection = null;
    this.hovered = null;
    this.range = null;
    this.tab = traces.length > 1 ? "diff" : "report";
    this.roles = traces[0].roles;
    this.diff = diff;
    this.panes = this.#makePanes(traces);
    this.search = new Search(this.panes);
    this.theme = new Theme(() => this.#repaint());
    this.panes.forEach((pane) => new Pointer(this, pane));
    this.keyboard = new Keyboard(this);
    fillHelp(byId("help"));
    fillFacts(this);
    this.#listen();
    this.#applySettings();
    this.showToken({ smooth: false });
    this.panes[0].chart.focus({ preventScroll: true });
  }

  #makePanes(traces) {
    return traces.map((trace, t) => {
      const host = element("section", { class: "pane", "aria-label": trace.head.name });
      if (traces.length > 1) {
        host.append(element("h2", {}, element("b", {}, trace.head.name), ...factsOf(trace.head)));
      }
      byId("panes").append(host);
      return new Pane(trace, trace.head.name, host, t);
    });
  }

  #listen() {
    new ResizeObserver(() => this.#layOut()).observe(byId("panes"));
    this.panes.forEach((pane) => new ResizeObserver(() => this.#layOut()).observe(pane.chart));
    byId("search").addEventListener("input", (event) => this.#search(event.target.value));
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.clearSearch();
    });
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.stepSearch(1);
      this.focusChart();
    });
  }

  // --- drawing

  #layOut() {
    for (const pane of this.panes) {
      pane.measure(this.settings);
      pane.arrange(this.settings);
    }
    this.#draw();
  }

  // Colours of all slices, after a change of theme, colouring, search or legend.
  #repaint() {
    for (const pane of this.panes) {
      pane.paint(new Colouring(pane.trace, this.settings.colourBy, this.theme), (slice, category) =>
        (this.alone === null || this.alone === category) && this.search.matches(pane, pane.trace.execution[slice]));
    }
    fillToolbar(this);
    fillLegend(this);
    this.#draw();
  }

  // On the next frame: everything, or only what is over the charts.
  #draw(all = true) {
    this.stale = this.stale === "all" || all ? "all" : "overlay";
    this.frame ??= requestAnimationFrame((now) => this.#frame(now));
  }

  #frame(now) {
    this.frame = null;
    this.#moveView(now);
    const { view, stale } = this;
    this.stale = null;
    if (!view) return;
    const cursor = this.hovered?.time ?? null;
    for (const pane of this.panes) {
      if (!pane.width || !pane.height) continue;
      pane.setView(view);
      if (stale === "all") pane.drawBase(this.theme);
      drawOverlay(pane, { path: this.settings.path, selection: this.selection, hover: this.hovered, range: this.range,
                          cursor, marks: this.search.marks });
    }
    this.#showStatus();
    if (this.target) this.#draw();
  }

  #showStatus() {
    const { begin, end } = this.view;
    byId("status-window").textContent = `View ${formatTime(begin)} to ${formatTime(end)} (${formatTime(end - begin)})`;
    byId("status-cursor").textContent = this.hovered ? `Pointer ${formatTime(this.hovered.time)}` : "";
    byId("status-range").textContent = this.range ? `Range ${formatTime(this.range.end - this.range.begin)}` : "";
    byId("search-count").textContent = this.search.status;
  }

  // --- time

  // A view moves smoothly where the reader has not asked for less motion.
  setView(begin, end, { smooth = false } = {}) {
    const wanted = this.#clamp(begin, end);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!smooth || calm || !this.view) {
      this.view = wanted;
      this.target = null;
    } else {
      this.target = { from: this.view, to: wanted, since: performance.now() };
    }
    this.#draw();
  }

  #moveView(now) {
    if (!this.target) return;
    const { from, to, since } = this.target;
    const part = Math.min(1, Math.max(0, now - since) / kSmoothMs);
    const eased = 1 - (1 - part) ** 3;
    const between = (a, b) => a + (b - a) * eased;
    this.view = { begin: between(from.begin, to.begin), end: between(from.end, to.end) };
    if (part === 1) this.target = null;
  }

  // From the first event of the traces to the last.
  get #bounds() {
    return {
      least: Math.min(...this.panes.map((pane) => pane.relative(0))),
      most: Math.max(...this.panes.map((pane) => pane.relative(pane.trace.end))),
    };
  }

  #clamp(begin, end) {
    const { least, most } = this.#bounds;
    const margin = kBeyondToken * Math.max(...this.panes.map((pane) => pane.length));
    const length = Math.min(Math.max(end - begin, kNearestView), most - least + 2 * margin);
    const middle = (begin + end) / 2;
    const first = Math.min(Math.max(middle - length / 2, least - margin), most + margin - length);
    return { begin: first, end: first + length };
  }

  get #wantedView() {
    return this.target?.to ?? this.view;
  }

  // The pointer's time, the selection's, or the middle of the view.
  #anchor() {
    const { begin, end } = this.#wantedView;
    const inside = (time) => time >= begin && time <= end;
    if (this.hovered && inside(this.hovered.time)) return this.hovered.time;
    if (this.selection) {
      const { pane, slice } = this.selection;
      const middle = pane.relative((pane.trace.begin[slice] + pane.trace.finish[slice]) / 2);
      if (inside(middle)) return middle;
    }
    return (begin + end) / 2;
  }

  zoom(factor, anchor = this.#anchor(), { smooth = true } = {}) {
    const { begin, end } = this.#wantedView;
    const length = Math.max(kNearestView, (end - begin) * factor);
    const share = (anchor - begin) / (end - begin);
    this.setView(anchor - share * length, anchor + (1 - share) * length, { smooth });
  }
  pan(share, { smooth = true } = {}) {
    const { begin, end } = this.#wantedView;
    this.setView(begin + share * (end - begin), end + share * (end - begin), { smooth });
  }
  centre(time) {
    const half = (this.view.end - this.view.begin) / 2;
    this.setView(time - half, time + half);
  }

  showToken({ smooth = true } = {}) {
    const length = Math.max(...this.panes.map((pane) => pane.length));
    this.setView(-kBeyondToken * length, (1 + kBeyondToken) * length, { smooth });
  }
  showTrace() {
    const { least, most } = this.#bounds;
    this.setView(least, most, { smooth: true });
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
    this.search.run(this.search.query);
    this.#repaint();
    this.#fillPanel();
    this.showToken({ smooth: false });
    this.announce(`token ${token + 1}, ${formatTime(this.panes[0].length)}`);
  }

  // --- rows

  scroll(pane, top) {
    pane.scrollTo(top);
    this.#draw();
  }
  scrollPage(by) {
    const { pane } = this.#current;
    this.scroll(pane, pane.scroll + by * pane.rowsArea.height * 0.8);
  }
  changeRowHeight(by) {
    const { lanes, ratio } = this.panes[0];
    const height = lanes.height / ratio;
    const step = height < 6 ? 1 : kRowHeightStep;
    this.#setRowHeight(Math.min(kMaxRowHeight, Math.max(1, Math.round(height + by * step))));
  }
  fitRows() {
    this.#setRowHeight(null);
  }
  #setRowHeight(height) {
    this.settings.rowHeights[this.settings.grouping] = height;
    this.#keepSelectionInSight();
  }
  #keepSelectionInSight() {
    const { pane } = this.#current;
    const row = this.selection ? this.selection.pane.trace.rowOfSlice(this.selection.slice)
                               : pane.lanes.rows[pane.lanes.firstBelow(pane.scroll + pane.rowsArea.height / 2)];
    this.#layOut();
    if (row !== undefined) this.#showRow(pane, row);
    this.#draw();
  }
  #showRow(pane, row) {
    const top = pane.lanes.tops[row];
    if (top < 0) return;
    const outside = top < pane.scroll || top + pane.lanes.height > pane.scroll + pane.rowsArea.height;
    if (outside) pane.scrollTo(top - pane.rowsArea.height / 2);
  }
  showSm(pane, sm) {
    this.search.clear();
    this.settings.grouping = "sm";
    this.#applySettings();
    pane.scrollTo(pane.lanes.tops[pane.trace.rowOf(sm, this.settings.roles.indexOf(true))]);
    this.#draw();
    this.announce(`SM ${sm}`);
  }

  // --- selection

  // The pane that keys act on.
  get #current() {
    const focused = this.panes.find((pane) => pane.chart === document.activeElement);
    return this.selection ?? { pane: focused ?? this.panes[0], slice: -1 };
  }

  select(pane, slice) {
    this.selection = slice < 0 ? null : { pane, slice };
    if (slice >= 0) {
      this.tab = "selection";
      this.announce(this.#sliceText(pane, slice));
    }
    this.#fillPanel();
    this.#draw(false);
  }
  // Selects it and brings it into view.
  reveal(pane, slice) {
    if (slice < 0) return;
    const { trace } = pane;
    const role = trace.rowOfSlice(slice) % trace.roles.length;
    if (!this.settings.roles[role]) this.toggleRole(role);
    this.select(pane, slice);
    this.#showRow(pane, trace.rowOfSlice(slice));
    const { begin, end } = this.#wantedView;
    const from = pane.relative(trace.begin[slice]), to = pane.relative(trace.finish[slice]);
    if (from < begin || to > end) {
      const length = Math.max(end - begin, (to - from) / kLeastSlice);
      this.setView((from + to - length) / 2, (from + to + length) / 2, { smooth: true });
    }
    this.#draw();
  }
  stepSlice(by) {
    const { pane, slice } = this.#current;
    if (slice < 0) return this.#selectAny(pane);
    const row = pane.trace.rowOfSlice(slice);
    const next = slice + by;
    if (next >= pane.trace.rowBegin[row] && next < pane.trace.rowBegin[row + 1]) this.reveal(pane, next);
  }
  stepRow(by) {
    const { pane, slice } = this.#current;
    if (slice < 0) return this.#selectAny(pane);
    const { trace, lanes } = pane;
    const time = (trace.begin[slice] + trace.finish[slice]) / 2;
    for (let i = lanes.rows.indexOf(trace.rowOfSlice(slice)) + by; i >= 0 && i < lanes.rows.length; i += by) {
      const row = lanes.rows[i];
      const near = Math.min(trace.firstEndingAfter(row, time), trace.rowBegin[row + 1] - 1);
      if (near >= trace.rowBegin[row]) return this.reveal(pane, near);
    }
  }
  // The slice in the middle of what is in view.
  #selectAny(pane) {
    const { begin, end } = this.view;
    const { first, last } = pane.visibleRows;
    const row = pane.lanes.rows[(first + last) >> 1];
    const time = (begin + end) / 2 + pane.window.begin;
    const slice = Math.min(pane.trace.firstEndingAfter(row, time), pane.trace.rowBegin[row + 1] - 1);
    if (slice >= pane.trace.rowBegin[row]) this.reveal(pane, slice);
  }
  stepPath(by) {
    const { pane, slice } = this.#current;
    const { trace } = pane;
    const steps = Array.from({ length: trace.pathBegin[pane.token + 1] - trace.pathBegin[pane.token] },
                             (_, i) => trace.pathBegin[pane.token] + i);
    const executions = [...new Set(steps.map((step) => trace.columns["path.execution"][step]))];
    if (!executions.length) return;
    const at = slice < 0 ? -1 : executions.indexOf(trace.execution[slice]);
    const next = at < 0 ? (by > 0 ? 0 : executions.length - 1) : Math.min(executions.length - 1, Math.max(0, at + by));
    this.reveal(pane, trace.mainSlice(executions[next]));
  }
  // Along the edge that ended last before the selection, or first after it.
  followEdge(direction) {
    const { pane, slice } = this.#current;
    if (slice < 0) return;
    const { trace } = pane;
    const signalled = trace.columns["edge.signalled"];
    const edges = direction === "before" ? [...trace.edgesTo(trace.execution[slice])] : [...trace.edgesFrom(trace.execution[slice])];
    if (!edges.length) return this.announce("none");
    const edge = edges.reduce((best, other) => (signalled[other] > signalled[best] ? other : best));
    this.reveal(pane, trace.mainSlice(trace.columns[direction === "before" ? "edge.from" : "edge.to"][edge]));
  }
  zoomToSelection() {
    if (this.selection) {
      const { pane, slice } = this.selection;
      const from = pane.relative(pane.trace.begin[slice]), to = pane.relative(pane.trace.finish[slice]);
      const length = (to - from) / kLeastSlice;
      this.setView((from + to - length) / 2, (from + to + length) / 2, { smooth: true });
    } else if (this.range) {
      this.setView(this.range.begin, this.range.end, { smooth: true });
    }
  }
  otherPane() {
    const { pane } = this.#current;
    const other = this.panes[(this.panes.indexOf(pane) + 1) % this.panes.length];
    other.chart.focus();
    if (this.selection && other !== pane) {
      const { instruction } = pane.trace.describe(pane.trace.execution[this.selection.slice]);
      this.reveal(other, other.trace.mainSlice(other.trace.executionOf(instruction, other.window.pass)));
    }
  }

  setRange(begin, end) {
    this.range = { begin, end };
    this.tab = "selection";
    this.#fillPanel();
    this.#draw(false);
  }
  clearRange() {
    this.range = null;
    this.#fillPanel();
    this.#draw(false);
  }
  markRange() {
    if (!this.selection) return;
    const { pane, slice } = this.selection;
    this.setRange(pane.relative(pane.trace.begin[slice]), pane.relative(pane.trace.finish[slice]));
  }
  escape() {
    if (this.search.query) this.clearSearch();
    else if (this.range) this.clearRange();
    else if (this.alone !== null) this.showAlone(this.alone);
    else this.select(this.#current.pane, -1);
  }

  // --- the pointer

  hover(what, event = null) {
    this.hovered = what;
    this.#showTip(event);
    this.#draw(false);
  }
  #showTip(event) {
    const tip = byId("tip");
    tip.hidden = !this.hovered || this.hovered.slice < 0;
    if (tip.hidden) return;
    const { pane, slice } = this.hovered;
    const { trace } = pane;
    const row = trace.rowOfSlice(slice);
    tip.replaceChildren(
      element("b", {}, trace.nameOf(trace.execution[slice])),
      element("div", {}, `${trace.roles[row % trace.roles.length]}: ${trace.head.states[trace.state[slice]]}, ` +
        formatTime(trace.finish[slice] - trace.begin[slice])),
      element("div", { class: "quiet" }, `SM ${Math.floor(row / trace.roles.length)}, at ${formatTime(pane.relative(trace.begin[slice]))}`));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
  }
  #sliceText(pane, slice) {
    const { trace } = pane;
    const row = trace.rowOfSlice(slice);
    return `${trace.nameOf(trace.execution[slice])}, SM ${Math.floor(row / trace.roles.length)} ` +
      `${trace.roles[row % trace.roles.length]}, ${trace.head.states[trace.state[slice]]}, ` +
      `${formatTime(trace.finish[slice] - trace.begin[slice])} at ${formatTime(pane.relative(trace.begin[slice]))}`;
  }
  announce(text) {
    byId("announce").textContent = text;
  }
  focusChart() {
    this.#current.pane.chart.focus({ preventScroll: true });
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
  #search(query) {
    this.search.run(query);
    this.#repaint();
    this.announce(this.search.status);
  }
  stepSearch(by) {
    const hit = this.search.step(by);
    if (hit) this.reveal(hit.pane, hit.pane.trace.mainSlice(hit.execution));
    this.#draw(false);
  }
  clearSearch() {
    byId("search").value = "";
    this.#search("");
    this.focusChart();
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
    this.#applySettings();
    this.#keepSelectionInSight();
    this.announce(`rows by ${kGroupingNames[by]}`);
  }
  cycleGrouping() {
    this.groupBy(kGroupings[(kGroupings.indexOf(this.settings.grouping) + 1) % kGroupings.length]);
  }
  toggleRole(role) {
    const roles = this.settings.roles.map((on, r) => (r === role ? !on : on));
    if (!roles.some(Boolean)) return;
    this.settings.roles = roles;
    this.#applySettings();
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
  #applySettings() {
    byId("side").hidden = !this.settings.side;
    byId("panes").classList.toggle("beside", this.settings.beside);
    this.#layOut();
    this.#repaint();
    this.#fillPanel();
  }

  // --- panels

  showTab(tab) {
    if (tab === "diff" && this.panes.length < 2) return;
    this.tab = tab;
    if (!this.settings.side) this.toggle("side");
    this.#fillPanel();
  }
  #fillPanel() {
    const tabs = [["selection", "Instruction", "i"], ["report", "Report", "r"], ["diff", "Comparison", "v"]];
    byId("tabs").replaceChildren(...tabs.slice(0, this.panes.length > 1 ? 3 : 2).map(([tab, text, key]) =>
      element("button", { type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "panel", "aria-keyshortcuts": key,
                          "aria-selected": `${tab === this.tab}`, onclick: () => this.showTab(tab) }, text)));
    const panel = byId("panel");
    panel.setAttribute("aria-labelledby", `tab-${this.tab}`);
    ({ selection: showSelection, report: showReport, diff: showDiff })[this.tab](this, panel);
  }
}
