// Labels of a chart: names of SMs and roles on the left, the ruler with its lines.

// CSS pixels.
const kGroupNameEnd = 58; // names of groups end here, those of their members at the rows
const kNameMargin = 6;
const kLineOfNames = kSmallText + 3;
const kTickDistance = 80;
const kTickLength = 5;
const kTickText = 30; // the least that a tick's time takes

function drawGutter(pane) {
  const { trace, rowLayout, rowsArea: { x, y, height } } = pane;
  const role = (row) => trace.roles[row % trace.roles.length];
  const sm = (row) => `SM ${trace.localSm(Math.floor(row / trace.roles.length))}`;
  within(pane.base, { x: 0, y, width: x, height }, () => {
    drawGroupNames(pane, (group) => (rowLayout.by === "sm" ? `SM ${trace.localSm(group)}` : trace.roles[group]));
    drawMemberNames(pane, rowLayout.by === "sm" ? role : sm);
  });
}

// If there are several GPUs: their names over the whole width, above their rows.
function drawHeadings(pane) {
  const { base, rowsArea, rowLayout, scroll, theme } = pane;
  within(base, { x: 0, y: rowsArea.y, width: pane.width, height: rowsArea.height }, () => {
    for (const { rank, top, height, folded } of rowLayout.headings) {
      const y = rowsArea.y + top - scroll;
      base.fillStyle = theme.colours.sunken;
      base.fillRect(0, y, rowsArea.x + rowsArea.width, height);
      pane.text(`${folded ? "▸" : "▾"} GPU ${rank}`, pane.px(kNameMargin), y + height / 2,
                { colour: theme.colours.text, weight: 600 });
    }
  });
}

// A group's name stands in the middle of what is visible of it. Where there is no room for all, every second, fourth,
// eighth, … has one, at its top.
function drawGroupNames(pane, nameOf) {
  const { rowsArea, rowLayout, scroll } = pane;
  const line = pane.px(kLineOfNames);
  const [first, second] = rowLayout.groups;
  const every = nextPowerOfTwo(line / (second ? second.top - first.top : line));
  rowLayout.groups.forEach((group, g) => {
    if (g % every !== 0) return;
    const top = Math.max(rowsArea.y, rowsArea.y + group.top - scroll);
    const bottom = Math.min(rowsArea.y + rowsArea.height, rowsArea.y + group.top + group.height - scroll);
    if (bottom <= rowsArea.y || top >= rowsArea.y + rowsArea.height) return;
    const middle = Math.max(top + line / 2, Math.min(bottom - line / 2, (top + bottom) / 2));
    const y = every > 1 ? top + line / 2 : middle;
    pane.text(nameOf(group.key), pane.px(kGroupNameEnd), y, { align: "right", colour: pane.theme.colours.text });
  });
}

// Draws the roles' names, but only if there is room for all of them.
function drawMemberNames(pane, nameOf) {
  const { rowLayout, rowsArea } = pane;
  const line = pane.px(kSmallText + 2);
  const every = nextPowerOfTwo(line / rowLayout.height);
  if (rowLayout.by === "sm" && every > 1) return;
  const { first, last } = pane.visibleRows;
  for (let i = first; i < last; ++i) {
    const member = i % rowLayout.members;
    if (member % every !== 0 || (rowLayout.members - member) * rowLayout.height < line) continue;
    const middle = pane.topOf(rowLayout.rows[i]) + (every === 1 ? rowLayout.height : line) / 2;
    pane.text(nameOf(rowLayout.rows[i]), rowsArea.x - pane.px(kNameMargin), middle, { align: "right" });
  }
}

function nextPowerOfTwo(value) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(value)));
}

function drawRuler(pane) {
  const { base, rulerArea, rowsArea, theme } = pane;
  const step = roundStep(pane.viewEnd - pane.viewBegin, rulerArea.width / pane.px(kTickDistance));
  const bottom = pane.trackAreas.length ? pane.height : rowsArea.y + rowsArea.height;
  const tick = pane.px(kTickLength);
  for (let n = Math.ceil(pane.viewBegin / step); n * step <= pane.viewEnd; ++n) {
    const x = Math.round(pane.xOf(n * step));
    base.fillStyle = theme.colours.quiet;
    base.globalAlpha = 0.35;
    base.fillRect(x, rowsArea.y - tick, 1, tick);
    base.globalAlpha = 0.13;
    base.fillRect(x, rowsArea.y, 1, bottom - rowsArea.y);
    base.globalAlpha = 1;
    if (x > pane.width - pane.px(kTickText)) continue;
    pane.text(formatTick(n * step, step), x + pane.px(kMargin), rulerArea.y + rulerArea.height / 2);
  }
}
