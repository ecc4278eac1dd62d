// One trace's chart: the whole trace as a strip, a ruler, the rows, and figures over time under them. What moves with
// the pointer is drawn by overlay.js on a canvas of its own. All sizes inside are device pixels; times are relative to
// the beginning of the token that is shown, so that two traces stand under each other token by token.

const kGutter = 62; // CSS pixels, as all of these
const kRoleGutter = 62;
const kOverviewHeight = 30;
const kRulerHeight = 20;
const kTrackHeight = 34;
const kTrackGap = 6;
const kHeightForTrack = 150; // of a pane, for each track that is shown
const kSmallText = 10;
const kLabelRowHeight = 11;
const kReadableHeight = 13;
const kLabelWidth = 24;
const kTickDistance = 80;

class Pane {
  constructor(trace, name, host) {
    this.trace = trace;
    this.name = name;
    this.token = trace.slowestWindow;
    this.lanes = new Lanes(trace);
    this.raster = new Raster();
    this.scroll = 0;
    this.chart = element("div", {
      class: "chart",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "Gantt chart",
      "aria-describedby": "announce",
      "aria-label": `Gantt chart of ${name}: what each role of each SM did at each moment. Press ? for the keys.`,
    });
    this.base = this.#addCanvas();
    this.overlay = this.#addCanvas();
    host.append(this.chart);
  }

  #addCanvas() {
    const canvas = element("canvas", { "aria-hidden": "true" });
    this.chart.append(canvas);
    return canvas.getContext("2d", { alpha: this.base !== undefined });
  }

  px(css) {
    return Math.round(css * this.ratio);
  }
  get window() {
    return this.trace.windows[this.token];
  }
  get length() {
    return this.window.end - this.window.begin;
  }

  // Takes its size from the element's, and places what is in it.
  measure({ tracks }) {
    this.ratio = devicePixelRatio;
    const width = (this.width = Math.round(this.chart.clientWidth * this.ratio));
    const height = (this.height = Math.round(this.chart.clientHeight * this.ratio));
    for (const { canvas } of [this.base, this.overlay]) {
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    }
    this.#place(tracks);
  }

  #place(tracks) {
    const gutter = this.px(kGutter + kRoleGutter);
    const width = Math.max(1, this.width - gutter - this.px(8));
    const heads = this.trace.head.tracks;
    const count = tracks ? Math.min(heads.length, Math.max(1, Math.floor(this.height / this.px(kHeightForTrack)))) : 0;
    const trackHeight = this.px(kTrackHeight);
    const tracksTop = this.height - count * trackHeight - this.px(4);
    this.overviewArea = { x: gutter, y: this.px(4), width, height: this.px(kOverviewHeight) };
    this.rulerArea = { x: gutter, y: this.px(4 + kOverviewHeight), width, height: this.px(kRulerHeight) };
    const top = this.rulerArea.y + this.rulerArea.height;
    this.rowsArea = { x: gutter, y: top, width, height: Math.max(1, tracksTop - top) };
    this.trackAreas = heads.slice(0, count).map((_, t) => ({
      x: gutter,
      y: tracksTop + t * trackHeight + this.px(kTrackGap),
      width,
      height: trackHeight - this.px(kTrackGap),
    }));
  }

  // A row's height is in CSS pixels, or "fit": as high as all rows fit; "readable": that, but with names in slices.
  arrange({ grouping, roles, rowHeights }) {
    const wanted = rowHeights[grouping];
    const fit = this.lanes.heightThatFits(grouping, roles, this.rowsArea.height);
    const height = { fit, readable: Math.max(fit, this.px(kReadableHeight)) }[wanted] ?? this.px(wanted);
    this.lanes.arrange(grouping, roles, height);
    this.scrollTo(this.scroll);
  }

  scrollTo(top) {
    this.scroll = Math.round(Math.max(0, Math.min(top, this.lanes.total - this.rowsArea.height)));
  }

  // Scrolls no further than it has to.
  showRow(row) {
    const top = this.lanes.tops[row];
    const inSight = top >= this.scroll && top + this.lanes.height <= this.scroll + this.rowsArea.height;
    if (top >= 0 && !inSight) this.scrollTo(top - this.rowsArea.height / 2);
  }

  setView({ begin, end }) {
    this.viewBegin = begin;
    this.viewEnd = end;
    this.perNs = this.rowsArea.width / (end - begin);
  }
  xOf(time) {
    return this.rowsArea.x + (time - this.viewBegin) * this.perNs;
  }
  timeAt(x) {
    return this.viewBegin + (x - this.rowsArea.x) / this.perNs;
  }
  // From the trace's clock to the token's.
  relative(time) {
    return time - this.window.begin;
  }
  // A row's top on the canvas; NaN if the row is not shown.
  topOf(row) {
    const top = this.lanes.tops[row];
    return top < 0 ? NaN : this.rowsArea.y + top - this.scroll;
  }
  rowAt(y) {
    const { rowsArea } = this;
    if (y < rowsArea.y || y >= rowsArea.y + rowsArea.height) return -1;
    return this.lanes.rowAt(y - rowsArea.y + this.scroll);
  }
  sliceAt(x, y) {
    const row = this.rowAt(y);
    return row < 0 || x < this.rowsArea.x ? -1 : this.trace.sliceAt(row, this.timeAt(x) + this.window.begin);
  }
  get visibleRows() {
    const first = this.lanes.firstBelow(this.scroll);
    const last = firstThat(first, this.lanes.rows.length,
                           (i) => this.lanes.tops[this.lanes.rows[i]] >= this.scroll + this.rowsArea.height);
    return { first, last };
  }

  // After a change of colours: what drawBase takes them from.
  paint(colouring, lit) {
    this.colouring = colouring;
    this.colours = colouring.paint(this.trace, lit);
    this.levels = kBlockSizes.map((size) => new Blocks(this.trace, this.colours, size));
  }

  drawBase(theme) {
    this.theme = theme;
    this.base.fillStyle = theme.colours.ground;
    this.base.fillRect(0, 0, this.width, this.height);
    this.#drawRows();
    if (this.lanes.height >= this.px(kLabelRowHeight)) drawSliceLabels(this);
    this.#drawOtherTokens();
    this.#drawGutter();
    this.#drawRuler();
    drawOverview(this);
    this.trackAreas.forEach((area, t) => drawTrack(this, t, area));
  }

  #drawRows() {
    const { base, rowsArea, lanes } = this;
    base.save();
    base.beginPath();
    base.rect(rowsArea.x, rowsArea.y, rowsArea.width, rowsArea.height);
    base.clip();
    this.raster.draw(base, {
      trace: this.trace,
      lanes,
      colours: this.colours,
      levels: this.levels,
      ...this.visibleRows,
      area: rowsArea,
      scroll: this.scroll,
      begin: this.viewBegin + this.window.begin,
      scale: this.perNs,
      ground: packColour(parseHexColour(this.theme.colours.raised)),
    });
    base.restore();
  }

  // What lies before and after the token belongs to its neighbours: it is there, but pale.
  #drawOtherTokens() {
    const { base, rowsArea } = this;
    const left = Math.min(rowsArea.x + rowsArea.width, Math.max(rowsArea.x, this.xOf(0)));
    const right = Math.min(rowsArea.x + rowsArea.width, Math.max(rowsArea.x, this.xOf(this.length)));
    base.globalAlpha = 0.6;
    base.fillStyle = this.theme.colours.ground;
    base.fillRect(rowsArea.x, rowsArea.y, left - rowsArea.x, rowsArea.height);
    base.fillRect(right, rowsArea.y, rowsArea.x + rowsArea.width - right, rowsArea.height);
    base.globalAlpha = 1;
  }

  text(string, x, y, { colour = this.theme.colours.quiet, align = "left", size = kSmallText, weight = 400 } = {}) {
    this.base.font = `${weight} ${this.px(size)}px ${this.theme.font}`;
    this.base.fillStyle = colour;
    this.base.textAlign = align;
    this.base.textBaseline = "middle";
    this.base.fillText(string, x, y);
  }

  #drawGutter() {
    const { base, rowsArea, lanes } = this;
    base.save();
    base.beginPath();
    base.rect(0, rowsArea.y, rowsArea.x, rowsArea.height);
    base.clip();
    const { first, last } = this.visibleRows;
    const names = lanes.by === "sm" ? (key) => `SM ${key}` : (key) => this.trace.roles[key];
    const members = lanes.by === "sm" ? (row) => this.trace.roles[row % this.trace.roles.length]
                                      : (row) => `SM ${Math.floor(row / this.trace.roles.length)}`;
    this.#drawGroupNames(names);
    this.#drawMemberNames(first, last, members);
    base.restore();
  }

  // A group's name stands in its middle, as far as it is visible; one that has no room is left out.
  #drawGroupNames(nameOf) {
    const { rowsArea, lanes } = this;
    const line = this.px(kSmallText + 3);
    const every = nextPowerOfTwo(line / (lanes.groups[1]?.top ?? line));
    lanes.groups.forEach((group, g) => {
      if (g % every !== 0) return;
      const top = Math.max(rowsArea.y, rowsArea.y + group.top - this.scroll);
      const bottom = Math.min(rowsArea.y + rowsArea.height, rowsArea.y + group.top + group.height - this.scroll);
      if (bottom <= rowsArea.y || top >= rowsArea.y + rowsArea.height) return;
      const middle = Math.max(top + line / 2, Math.min(bottom - line / 2, (top + bottom) / 2));
      const colour = this.theme.colours.text;
      this.text(nameOf(group.key), this.px(kGutter - 4), every > 1 ? top + line / 2 : middle, { align: "right", colour });
    });
  }

  // Each row's name where rows are high enough; else, of SMs, every second, fourth, eighth, …, at its row's top.
  #drawMemberNames(first, last, nameOf) {
    const { lanes } = this;
    const line = this.px(kSmallText + 2);
    const every = nextPowerOfTwo(line / lanes.height);
    if (lanes.by === "sm" && every > 1) return;
    for (let i = first; i < last; ++i) {
      const member = i % lanes.members;
      if (member % every !== 0 || (lanes.members - member) * lanes.height < line) continue;
      const middle = this.topOf(lanes.rows[i]) + (every === 1 ? lanes.height : line) / 2;
      this.text(nameOf(lanes.rows[i]), this.rowsArea.x - this.px(6), middle, { align: "right" });
    }
  }

  #drawRuler() {
    const { base, rulerArea, rowsArea } = this;
    const step = roundStep(this.viewEnd - this.viewBegin, rulerArea.width / this.px(kTickDistance));
    const bottom = this.trackAreas.length ? this.height : rowsArea.y + rowsArea.height;
    for (let n = Math.ceil(this.viewBegin / step); n * step <= this.viewEnd; ++n) {
      const x = Math.round(this.xOf(n * step)) + 0.5;
      base.globalAlpha = 0.35;
      base.fillStyle = this.theme.colours.quiet;
      base.fillRect(x - 0.5, rulerArea.y + rulerArea.height - this.px(5), 1, this.px(5));
      base.globalAlpha = 0.13;
      base.fillRect(x - 0.5, rowsArea.y, 1, bottom - rowsArea.y);
      base.globalAlpha = 1;
      if (x < this.width - this.px(30)) this.text(formatTick(n * step, step), x + this.px(4), rulerArea.y + rulerArea.height / 2);
    }
  }
}

function nextPowerOfTwo(value) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(value)));
}
