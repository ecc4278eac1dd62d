// One trace's chart: the whole trace as a strip, a ruler, the rows, and figures over time under them. What moves with
// the pointer is drawn by overlay.js on a canvas of its own. All sizes inside are device pixels; times are relative to
// the beginning of the token that is shown, so that two traces stand under each other token by token.

// CSS pixels.
const kGutter = 124; // on the left, for names
const kRightMargin = 8;
const kMargin = 4;
const kOverviewHeight = 30;
const kRulerHeight = 20;
const kTrackHeight = 34;
const kTrackGap = 6;
const kHeightForTrack = 150; // of a pane, for each track that is shown
const kSmallText = 10;
const kLabelRowHeight = 11;
const kReadableHeight = 13;
const kHeadingHeight = 18; // of a GPU
const kNeighbourStrength = 0.4; // of the tokens before and after the one that is shown

class Pane {
  constructor(trace, name, host) {
    this.trace = trace;
    this.name = name;
    this.token = trace.slowestWindow;
    this.rowLayout = new RowLayout(trace);
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
    const x = this.px(kGutter), width = Math.max(1, this.width - x - this.px(kRightMargin));
    const heads = this.trace.head.tracks;
    const room = Math.max(1, Math.floor(this.height / this.px(kHeightForTrack)));
    const count = tracks ? Math.min(heads.length, room) : 0;
    const trackHeight = this.px(kTrackHeight);
    const tracksTop = this.height - count * trackHeight - this.px(kMargin);
    this.overviewArea = { x, y: this.px(kMargin), width, height: this.px(kOverviewHeight) };
    this.rulerArea = { x, y: this.px(kMargin + kOverviewHeight), width, height: this.px(kRulerHeight) };
    const y = this.rulerArea.y + this.rulerArea.height;
    this.rowsArea = { x, y, width, height: Math.max(1, tracksTop - y) };
    this.trackAreas = heads.slice(0, count).map((_, t) => ({
      x, y: tracksTop + t * trackHeight + this.px(kTrackGap), width, height: trackHeight - this.px(kTrackGap),
    }));
  }

  // A row's height is in CSS pixels, or "fit": as high as all rows fit; "readable": that, but with names in slices.
  arrange({ grouping, roles, rowHeights, folded }) {
    const wanted = rowHeights[grouping];
    const headings = { height: this.px(kHeadingHeight), folded };
    const fit = this.rowLayout.heightThatFits(grouping, roles, this.rowsArea.height, headings);
    const height = { fit, readable: Math.max(fit, this.px(kReadableHeight)) }[wanted] ?? this.px(wanted);
    this.rowLayout.arrange(grouping, roles, height, headings);
    this.scrollTo(this.scroll);
  }

  scrollTo(top) {
    this.scroll = Math.round(Math.max(0, Math.min(top, this.rowLayout.total - this.rowsArea.height)));
  }

  // Scrolls no further than it has to.
  showRow(row) {
    const top = this.rowLayout.tops[row];
    const inSight = top >= this.scroll && top + this.rowLayout.height <= this.scroll + this.rowsArea.height;
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
  // Converts from the trace's clock to the token's.
  relative(time) {
    return time - this.window.begin;
  }
  // A row's top on the canvas; NaN if the row is not shown.
  topOf(row) {
    const top = this.rowLayout.tops[row];
    return top < 0 ? NaN : this.rowsArea.y + top - this.scroll;
  }
  rowAt(y) {
    const { rowsArea } = this;
    if (y < rowsArea.y || y >= rowsArea.y + rowsArea.height) return -1;
    return this.rowLayout.rowAt(y - rowsArea.y + this.scroll);
  }
  // The GPU whose heading is there; -1 if none is.
  rankAt(y) {
    const { rowsArea } = this;
    if (y < rowsArea.y || y >= rowsArea.y + rowsArea.height) return -1;
    return this.rowLayout.headingAt(y - rowsArea.y + this.scroll)?.rank ?? -1;
  }
  sliceAt(x, y) {
    const row = this.rowAt(y);
    return row < 0 || x < this.rowsArea.x ? -1 : this.trace.sliceAt(row, this.timeAt(x) + this.window.begin);
  }
  get visibleRows() {
    const first = this.rowLayout.firstBelow(this.scroll);
    const last = firstThat(first, this.rowLayout.rows.length,
                           (i) => this.rowLayout.tops[this.rowLayout.rows[i]] >= this.scroll + this.rowsArea.height);
    return { first, last };
  }

  // After a change of colours: updates the data that drawBase uses.
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
    if (this.rowLayout.height >= this.px(kLabelRowHeight)) within(this.base, this.rowsArea, () => drawSliceLabels(this));
    this.#drawOtherTokens();
    drawHeadings(this);
    drawGutter(this);
    drawRuler(this);
    drawOverview(this);
    this.trackAreas.forEach((area, t) => drawTrack(this, t, area));
  }

  #drawRows() {
    const { trace, rowLayout, colours, levels, scroll, rowsArea: area } = this;
    within(this.base, area, () => this.raster.draw(this.base, {
      trace, rowLayout, colours, levels, scroll, area, ...this.visibleRows,
      begin: this.viewBegin + this.window.begin,
      scale: this.perNs,
      ground: packColour(parseHexColour(this.theme.colours.raised)),
    }));
  }

  // The neighbouring tokens, before and after this one, are drawn pale.
  #drawOtherTokens() {
    const { base, rowsArea } = this;
    const left = Math.min(rowsArea.x + rowsArea.width, Math.max(rowsArea.x, this.xOf(0)));
    const right = Math.min(rowsArea.x + rowsArea.width, Math.max(rowsArea.x, this.xOf(this.length)));
    base.globalAlpha = 1 - kNeighbourStrength;
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
}

// Draws with everything outside an area cut off.
function within(context, { x, y, width, height }, draw) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  draw();
  context.restore();
}
