// The parts of a pane besides its rows: names in slices, the strip of the whole trace, figures over time.

const kBusyTrack = "busy SMs";
const kRoomOverTop = 1.06;
const kLabelWidth = 24; // CSS pixels: the least that a name takes

// Names stand in slices that are wide enough for them; the font's characters are all equally wide.
function drawSliceLabels(pane) {
  const { base, trace, rowLayout } = pane;
  base.font = `${pane.px(kSmallText)}px ${pane.theme.mono}`;
  base.textAlign = "left";
  base.textBaseline = "middle";
  const character = base.measureText("0").width;
  const { first, last } = pane.visibleRows;
  const least = pane.px(kLabelWidth) / pane.perNs;
  for (let i = first; i < last; ++i) {
    const row = rowLayout.rows[i];
    const middle = pane.topOf(row) + rowLayout.height / 2;
    const from = trace.firstEndingAfter(row, pane.viewBegin + pane.window.begin);
    for (let s = from; s < trace.rowBegin[row + 1] && pane.relative(trace.begin[s]) < pane.viewEnd; ++s) {
      if (trace.finish[s] - trace.begin[s] >= least) drawSliceLabel(pane, s, middle, character);
    }
  }
}

function drawSliceLabel(pane, slice, middle, character) {
  const { trace, rowsArea, base } = pane;
  const left = Math.max(rowsArea.x, pane.xOf(pane.relative(trace.begin[slice]))) + pane.px(4);
  const right = Math.min(rowsArea.x + rowsArea.width, pane.xOf(pane.relative(trace.finish[slice]))) - pane.px(2);
  const room = Math.floor((right - left) / character);
  const { op, layer } = trace.describe(trace.execution[slice]);
  const state = trace.head.states[trace.state[slice]];
  const place = layer < 0 ? op : `${op} ${layer}`;
  const label = [`${place} · ${state}`, place, state].find((text) => text.length <= room);
  if (label === undefined) return;
  base.fillStyle = readableOn(pane.colours[slice]);
  base.fillText(label, left, middle - pane.px(0.5));
}

// Black or white: the one that stands out from a packed colour.
function readableOn(colour) {
  const luminance = 0.299 * (colour & 0xff) + 0.587 * ((colour >>> 8) & 0xff) + 0.114 * ((colour >>> 16) & 0xff);
  return luminance > 140 ? "#111820" : "#ffffff";
}

// Steps: a point's value holds until the next one. xOf takes the trace's clock to pixels.
function traceSteps(context, points, from, to, xOf, yOf) {
  for (let i = from; i < to; ++i) {
    const y = yOf(points.value[i]);
    context.lineTo(xOf(points.time[i]), y);
    context.lineTo(xOf(i + 1 < points.time.length ? points.time[i + 1] : points.time[i]), y);
  }
}

function trackPoints(trace, index) {
  return { time: trace.columns[`track.${index}.time`], value: trace.columns[`track.${index}.value`] };
}
function formatTrack(name, value) {
  return name.startsWith("bytes") ? formatBytes(Math.round(value)) : formatCount(value);
}
// The end of a track's scale: the highest of its values, its limit and its `top`.
function trackTop(trace, index) {
  const { limit, top } = trace.head.tracks[index];
  return trackPoints(trace, index).value.reduce((a, b) => Math.max(a, b), Math.max(limit, top, 1e-9));
}

// Draws a track's points `from` to `to` in an area. Returns the function that places a value; null without
// points.
function fillTrack(pane, index, area, xOf, from, to) {
  const { base, theme } = pane;
  const points = trackPoints(pane.trace, index);
  if (to <= from) return null;
  const top = trackTop(pane.trace, index) * kRoomOverTop;
  const floor = area.y + area.height;
  const yOf = (value) => floor - (value / top) * area.height;
  within(base, area, () => {
    base.beginPath();
    base.moveTo(xOf(points.time[from]), floor);
    traceSteps(base, points, from, to, xOf, yOf);
    base.lineTo(xOf(points.time[Math.min(to, points.time.length - 1)]), floor);
    base.fillStyle = theme.colours["track-ground"];
    base.fill();
    base.strokeStyle = theme.colours.track;
    base.lineWidth = pane.px(1);
    base.stroke();
  });
  return yOf;
}

function drawTrack(pane, index, area) {
  const { base, trace, theme } = pane;
  const { name, limit } = trace.head.tracks[index];
  const { time } = trackPoints(trace, index);
  const from = Math.max(0, firstThat(0, time.length, (i) => pane.relative(time[i]) > pane.viewBegin) - 1);
  const to = firstThat(from, time.length, (i) => pane.relative(time[i]) > pane.viewEnd);
  const yOf = fillTrack(pane, index, area, (t) => pane.xOf(pane.relative(t)), from, to);
  base.fillStyle = theme.colours.line;
  base.fillRect(area.x, area.y + area.height, area.width, 1);
  const end = area.x - pane.px(kNameMargin), middle = area.y + area.height / 2, half = pane.px(kLineOfNames / 2);
  pane.text(name, end, middle - half, { align: "right", colour: theme.colours.text });
  pane.text(`to ${formatTrack(name, trackTop(trace, index))}`, end, middle + half, { align: "right" });
  if (limit && yOf) drawLimit(pane, area, Math.round(yOf(limit)));
}

function drawLimit(pane, area, y) {
  const { base, theme } = pane;
  base.strokeStyle = theme.colours.limit;
  base.setLineDash([pane.px(5), pane.px(3)]);
  base.lineWidth = pane.px(1);
  base.beginPath();
  base.moveTo(area.x, y + 0.5);
  base.lineTo(area.x + area.width, y + 0.5);
  base.stroke();
  base.setLineDash([]);
}

// Converts a time of the trace to a place on the strip that shows all of it.
function overviewX(pane, time) {
  return pane.overviewArea.x + (time / pane.trace.end) * pane.overviewArea.width;
}

function drawOverview(pane) {
  const { base, trace, theme, overviewArea: area } = pane;
  base.fillStyle = theme.colours.raised;
  base.fillRect(area.x, area.y, area.width, area.height);
  const track = Math.max(0, trace.head.tracks.findIndex(({ name }) => name === kBusyTrack));
  const { time } = trace.head.tracks.length ? trackPoints(trace, track) : { time: [] };
  if (time.length) fillTrack(pane, track, area, (t) => overviewX(pane, t), 0, time.length);
  base.fillStyle = theme.colours.quiet;
  trace.windows.forEach((window) => {
    base.fillRect(Math.round(overviewX(pane, window.begin)), area.y, 1, area.height);
  });
  pane.text(kBusyTrack, area.x - pane.px(kNameMargin), area.y + area.height / 2, { align: "right" });
}
