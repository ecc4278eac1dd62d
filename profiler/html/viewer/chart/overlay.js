// Drawings over a chart that change more often than it: the critical path, the selection with its arrows, the
// range, the pointer's line, and which part of the whole trace is in view.

const kArrowHead = 4;
const kPathBesideLabels = 10; // rows at least this high have the path at their foot, under the names
const kMaxArrows = 400;
const kArrowStrength = 0.8; // of one; many of them are fainter
const kFaintArrow = 0.25;

function drawOverlay(pane, { path, selection, hover, range, cursor, marks }) {
  const { overlay, rowsArea } = pane;
  overlay.clearRect(0, 0, pane.width, pane.height);
  drawWindowOfView(pane);
  drawMarks(pane, marks);
  within(overlay, rowsArea, () => {
    if (path) drawPath(pane);
    if (selection?.pane === pane) drawSelection(pane, selection.slice);
    if (hover?.pane === pane && hover.slice >= 0) outlineSlice(pane, hover.slice, pane.theme.colours.text, 1);
  });
  if (range) drawRange(pane, range);
  if (cursor !== null) drawCursor(pane, cursor);
  drawScrollThumb(pane);
}

function drawWindowOfView(pane) {
  const { overlay, theme, overviewArea: area, trace } = pane;
  const left = overviewX(pane, Math.max(0, pane.viewBegin + pane.window.begin));
  const right = overviewX(pane, Math.min(trace.end, pane.viewEnd + pane.window.begin));
  overlay.fillStyle = theme.colours.ground;
  overlay.globalAlpha = 0.6;
  overlay.fillRect(area.x, area.y, left - area.x, area.height);
  overlay.fillRect(right, area.y, area.x + area.width - right, area.height);
  overlay.globalAlpha = 1;
  overlay.strokeStyle = theme.colours.accent;
  overlay.lineWidth = pane.px(1.5);
  overlay.strokeRect(left, area.y + 0.5, Math.max(2, right - left), area.height - 1);
  if (trace.windows.length > 1) trace.windows.forEach((window, w) => drawTokenName(pane, window, `token ${w + 1}`));
}

function drawTokenName(pane, window, name) {
  const { overlay, theme, overviewArea: area } = pane;
  const left = overviewX(pane, window.begin) + pane.px(4);
  overlay.font = `${pane.px(kSmallText)}px ${theme.font}`;
  const width = overlay.measureText(name).width + pane.px(6);
  if (left + width > overviewX(pane, window.end)) return;
  overlay.fillStyle = theme.colours.raised;
  overlay.globalAlpha = 0.85;
  overlay.fillRect(left, area.y + pane.px(3), width, pane.px(14));
  overlay.globalAlpha = 1;
  overlay.fillStyle = theme.colours.text;
  overlay.textAlign = "left";
  overlay.textBaseline = "middle";
  overlay.fillText(name, left + pane.px(3), area.y + pane.px(10.5));
}

// Marks on the strip of the whole trace where a search has found something.
function drawMarks(pane, marks) {
  const { overlay, theme, overviewArea: area } = pane;
  overlay.fillStyle = theme.colours.path;
  for (const time of marks?.get(pane) ?? []) {
    overlay.fillRect(Math.round(overviewX(pane, time)), area.y + area.height - pane.px(5), 1, pane.px(5));
  }
}

// The middle of a row, or, where its GPU is folded, of the GPU's heading, or, where its role is not shown, of the
// nearest row of its SM; NaN if there is none.
function lineOf(pane, row) {
  const { rowLayout, rowsArea, trace } = pane;
  const heading = rowLayout.headings[trace.rankOfRow(row)];
  if (heading?.folded) return rowsArea.y + heading.top - pane.scroll + heading.height / 2;
  if (rowLayout.tops[row] < 0) {
    const first = row - (row % trace.roles.length);
    const shown = trace.roles.map((_, role) => first + role).filter((other) => rowLayout.tops[other] >= 0);
    if (!shown.length || rowLayout.by === "role") return NaN;
    row = shown.reduce((best, other) => (Math.abs(other - row) < Math.abs(best - row) ? other : best));
  }
  const foot = rowLayout.height >= pane.px(kPathBesideLabels);
  return pane.topOf(row) + (foot ? rowLayout.height - pane.px(0.5) : rowLayout.height / 2);
}

// One line from the token's first event to its last: strong where time passes, thin where it goes up or down from an
// SM's role that has waited to the one it has waited for.
function drawPath(pane) {
  const { trace, overlay, theme } = pane;
  const { columns, stepTime, pathBegin } = trace;
  const from = pathBegin[pane.token], to = pathBegin[pane.token + 1];
  const timeOf = (i) => pane.relative(i < to ? stepTime[i] : pane.window.end);
  const first = firstThat(from, to, (i) => timeOf(i + 1) > pane.viewBegin);
  const along = new Path2D(), between = new Path2D();
  let last = NaN;
  for (let i = first; i < to && timeOf(i) <= pane.viewEnd; ++i) {
    const sm = columns["execution.sm"][columns["path.execution"][i]];
    const y = lineOf(pane, trace.rowOf(sm, columns["path.role"][i]));
    if (Number.isNaN(y)) continue;
    const x = pane.xOf(timeOf(i));
    along.moveTo(x, y);
    along.lineTo(pane.xOf(timeOf(i + 1)), y);
    if (!Number.isNaN(last) && last !== y) {
      between.moveTo(x, last);
      between.lineTo(x, y);
    }
    last = y;
  }
  const stroke = (path, colour, width, alpha) => {
    overlay.strokeStyle = colour;
    overlay.lineWidth = pane.px(width);
    overlay.globalAlpha = alpha;
    overlay.stroke(path);
    overlay.globalAlpha = 1;
  };
  stroke(between, theme.colours.path, 1, 0.6);
  stroke(along, theme.colours.ground, 4, 0.8);
  stroke(along, theme.colours.path, 2.25, 1);
}

function outlineSlice(pane, slice, colour, width) {
  const { trace, overlay, rowLayout } = pane;
  const top = pane.topOf(trace.rowOfSlice(slice));
  if (Number.isNaN(top)) return;
  const left = pane.xOf(pane.relative(trace.begin[slice]));
  const right = pane.xOf(pane.relative(trace.finish[slice]));
  const line = pane.px(width);
  overlay.strokeStyle = colour;
  overlay.lineWidth = line;
  overlay.strokeRect(left - line / 2, top - line / 2, Math.max(line, right - left) + line, rowLayout.height + line);
}

// The selected slice, the other slices of its execution, and arrows from its producers and to its consumers.
function drawSelection(pane, slice) {
  const { trace, theme } = pane;
  const execution = trace.execution[slice];
  for (const other of trace.slicesOfExecution(execution)) outlineSlice(pane, other, theme.colours.accent, 1);
  outlineSlice(pane, slice, theme.colours.text, 2);
  for (const edges of [trace.edgesTo(execution), trace.edgesFrom(execution)]) {
    const strength = Math.max(kFaintArrow, kArrowStrength / Math.sqrt(edges.length));
    for (const edge of edges.subarray(0, kMaxArrows)) drawArrow(pane, edge, strength);
  }
}

function drawArrow(pane, edge, strength) {
  const { trace, overlay, theme } = pane;
  const { columns } = trace;
  const from = columns["edge.from"][edge], to = columns["edge.to"][edge];
  const y0 = lineOf(pane, lastRowOf(trace, from));
  const y1 = lineOf(pane, waitRowOf(trace, to));
  const x0 = pane.xOf(pane.relative(columns["edge.signalled"][edge]));
  const ready = trace.eventTime(to, "inputs_ready");
  const x1 = pane.xOf(pane.relative(ready < 0 ? columns["edge.signalled"][edge] : ready));
  if (Number.isNaN(y0) || Number.isNaN(y1)) return;
  const bend = Math.max(pane.px(12), Math.abs(x1 - x0) / 2);
  overlay.strokeStyle = overlay.fillStyle = theme.colours.accent;
  overlay.lineWidth = pane.px(1.25);
  overlay.globalAlpha = strength;
  overlay.beginPath();
  overlay.moveTo(x0, y0);
  overlay.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - pane.px(kArrowHead), y1);
  overlay.stroke();
  overlay.beginPath();
  overlay.moveTo(x1, y1);
  overlay.lineTo(x1 - pane.px(kArrowHead * 1.6), y1 - pane.px(kArrowHead));
  overlay.lineTo(x1 - pane.px(kArrowHead * 1.6), y1 + pane.px(kArrowHead));
  overlay.fill();
  overlay.globalAlpha = 1;
}

// The row on which an execution signals: that of its last slice.
function lastRowOf(trace, execution) {
  const slices = trace.slicesOfExecution(execution);
  return trace.rowOfSlice(slices[slices.length - 1]);
}
// The row on which it waits for counters, or its first one.
function waitRowOf(trace, execution) {
  const slices = trace.slicesOfExecution(execution);
  const wait = trace.head.states.indexOf("wait");
  return trace.rowOfSlice(slices.find((slice) => trace.state[slice] === wait) ?? slices[0]);
}

function drawRange(pane, { begin, end }) {
  const { overlay, theme, rowsArea, rulerArea } = pane;
  const left = Math.max(rowsArea.x, pane.xOf(begin));
  const right = Math.min(rowsArea.x + rowsArea.width, pane.xOf(end));
  if (right < left) return;
  overlay.fillStyle = theme.colours.accent;
  overlay.globalAlpha = 0.12;
  overlay.fillRect(left, rowsArea.y, right - left, pane.height - rowsArea.y);
  overlay.globalAlpha = 1;
  overlay.fillRect(left, rulerArea.y, 1, pane.height - rulerArea.y);
  overlay.fillRect(right, rulerArea.y, 1, pane.height - rulerArea.y);
  overlay.fillRect(left, rowsArea.y - pane.px(3), right - left, pane.px(3));
}

function drawCursor(pane, time) {
  const { overlay, theme, rowsArea, rulerArea, trackAreas } = pane;
  const x = Math.round(pane.xOf(time));
  if (x < rowsArea.x || x > rowsArea.x + rowsArea.width) return;
  overlay.fillStyle = theme.colours.quiet;
  overlay.globalAlpha = 0.7;
  overlay.fillRect(x, rulerArea.y + rulerArea.height - pane.px(5), 1, pane.height);
  overlay.globalAlpha = 1;
  trackAreas.forEach((area, t) => drawTrackValue(pane, t, area, time, x));
}

function drawTrackValue(pane, index, area, time, x) {
  const { overlay, theme, trace } = pane;
  const points = trackPoints(trace, index);
  const at = firstThat(0, points.time.length, (i) => pane.relative(points.time[i]) > time) - 1;
  if (at < 0) return;
  const text = formatTrack(trace.head.tracks[index].name, points.value[at]);
  overlay.font = `600 ${pane.px(kSmallText)}px ${theme.font}`;
  const width = overlay.measureText(text).width + pane.px(8);
  const left = x + width + pane.px(4) > area.x + area.width ? x - width - pane.px(3) : x + pane.px(3);
  overlay.fillStyle = theme.colours.ground;
  overlay.globalAlpha = 0.85;
  overlay.fillRect(left, area.y + pane.px(3), width, pane.px(15));
  overlay.globalAlpha = 1;
  overlay.fillStyle = theme.colours.text;
  overlay.textAlign = "left";
  overlay.textBaseline = "middle";
  overlay.fillText(text, left + pane.px(4), area.y + pane.px(11));
}

function drawScrollThumb(pane) {
  const { overlay, theme, rowsArea, rowLayout } = pane;
  if (rowLayout.total < rowsArea.height + 1) return;
  const share = rowsArea.height / rowLayout.total;
  overlay.fillStyle = theme.colours.quiet;
  overlay.globalAlpha = 0.45;
  overlay.fillRect(pane.width - pane.px(6), rowsArea.y + pane.scroll * share, pane.px(4), rowsArea.height * share);
  overlay.globalAlpha = 1;
}
