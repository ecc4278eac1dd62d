// A slice in words: beside the pointer, and for screen readers.

const kTipDistance = 16; // CSS pixels

function placeOf(trace, slice) {
  const row = trace.rowOfSlice(slice);
  return { sm: trace.smName(Math.floor(row / trace.roles.length)), role: trace.roles[row % trace.roles.length] };
}

function sliceInWords(pane, slice) {
  const { trace } = pane;
  const { sm, role } = placeOf(trace, slice);
  return `${trace.nameOf(trace.execution[slice])}, ${sm} ${role}, ${trace.head.states[trace.state[slice]]}, ` +
    `${formatTime(trace.finish[slice] - trace.begin[slice])} at ${formatTime(pane.relative(trace.begin[slice]))}`;
}

// `hovered`: { pane, slice } or null; `at`: of the pointer, in CSS pixels of the window.
function showTip(hovered, at) {
  const tip = byId("tip");
  tip.hidden = !hovered || hovered.slice < 0;
  if (tip.hidden) return;
  const { pane, slice } = hovered;
  const { trace } = pane;
  const { sm, role } = placeOf(trace, slice);
  const length = formatTime(trace.finish[slice] - trace.begin[slice]);
  tip.replaceChildren(
    element("b", {}, trace.nameOf(trace.execution[slice])),
    element("div", {}, `${role}: ${trace.head.states[trace.state[slice]]}, ${length}`),
    element("div", { class: "quiet" }, `${sm}, at ${formatTime(pane.relative(trace.begin[slice]))}`));
  const { width, height } = tip.getBoundingClientRect();
  const below = at.y + kTipDistance + height <= innerHeight;
  tip.style.left = `${Math.min(at.x + kTipDistance, innerWidth - width)}px`;
  tip.style.top = `${below ? at.y + kTipDistance : at.y - kTipDistance - height}px`;
}
