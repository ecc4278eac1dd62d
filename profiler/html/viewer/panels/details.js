// The panel of the selected instruction: what it is, its times, and its producers and consumers; or, of a
// marked range: what the SMs did in it.

const kShownPartners = 6;

function showSelection(app, panel) {
  const parts = [];
  if (app.range) parts.push(rangeSection(app));
  if (app.selection) parts.push(...instructionSections(app, app.selection.pane, app.selection.slice));
  if (!parts.length) {
    parts.push(element("p", { class: "hint" },
      "Click a slice, or press an arrow key, to see its instruction, its timings, what it waited for and who waited " +
      "for it. Shift and drag marks a range. Press ? for all keys."));
  }
  panel.replaceChildren(...parts);
}

function instructionSections(app, pane, slice) {
  const { trace } = pane;
  const it = trace.describe(trace.execution[slice]);
  return [
    element("h3", {}, trace.nameOf(it.execution), app.panes.length > 1 ? ` (${pane.name})` : ""),
    element("p", { class: "quiet" },
      `${trace.smName(it.sm)}, instruction ${it.pc} of its queue, #${it.instruction} of the program; token ${pane.token + 1}` +
      `; reads ${formatBytes(it.bytes)}`),
    timings(pane, it.execution, slice),
    waitedFor(app, pane, it),
    waitedBy(app, pane, it),
    operands(it.text),
    element("h4", {}, "Disassembly"),
    element("pre", { class: "disassembly" }, it.text.replaceAll(" | ", "\n  ")),
  ];
}

// Each state of each role, with the selected one marked; the times of the events that began and ended it.
function timings(pane, execution, selected) {
  const { trace } = pane;
  const rows = [...trace.slicesOfExecution(execution)].map((slice) =>
    element("tr", { class: slice === selected ? "current" : null },
      element("td", {}, trace.roles[trace.rowOfSlice(slice) % trace.roles.length]),
      element("td", {}, trace.head.states[trace.state[slice]]),
      element("td", { class: "number" }, formatMicros(pane.relative(trace.begin[slice]))),
      element("td", { class: "number" }, formatMicros(trace.finish[slice] - trace.begin[slice]))));
  const events = trace.head.events.filter(({ name }) => trace.eventTime(execution, name) >= 0);
  return element("div", {},
    element("h4", {}, "Timings"),
    plainTable([["role"], ["state"], ["begin, µs", "number"], ["length, µs", "number"]], rows),
    element("details", {}, element("summary", {}, `${events.length} events`),
      plainTable([["event"], ["at, µs", "number"]], events.map(({ name, meaning }) =>
        element("tr", { title: meaning },
          element("td", {}, name),
          element("td", { class: "number" }, formatMicros(pane.relative(trace.eventTime(execution, name)))))))));
}

function plainTable(columns, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map(([name, kind]) =>
      element("th", { scope: "col", class: kind ? `plain ${kind}` : "plain" }, name)))),
    element("tbody", {}, ...rows));
}

// A list of executions as links, the first few of them.
function partners(app, pane, executions, noteOf) {
  const { trace } = pane;
  const item = (execution) => {
    const { sm } = trace.describe(execution);
    const go = () => app.reveal(pane, trace.mainSlice(execution));
    return element("li", {}, link(`${trace.nameOf(execution)} on ${trace.smName(sm)}`, "select it", go), " ",
                   element("span", { class: "quiet" }, noteOf(execution)));
  };
  const shown = executions.slice(0, kShownPartners).map(item);
  if (executions.length > kShownPartners) {
    const rest = executions.slice(kShownPartners);
    const list = element("ul", { class: "partners" }, ...shown);
    const more = element("button", { class: "more", type: "button" }, `and ${rest.length} more`);
    more.addEventListener("click", () => more.replaceWith(element("ul", { class: "partners" }, ...rest.map(item))));
    return element("div", {}, list, more);
  }
  return element("ul", { class: "partners" }, ...shown);
}

// "(residual q)" after a wait in the listing: the operands that it guards.
function guardedBy(text, counter) {
  return text.match(new RegExp(`wait c${counter}>=\\d+ \\(([^)]*)\\)`))?.[1] ?? "";
}

function overLink(trace, from, to) {
  return trace.crossesLink(from, to) ? "over the link, " : "";
}

function waitedFor(app, pane, it) {
  const { trace } = pane;
  const { columns } = trace;
  const waits = trace.waitsOf(it.instruction);
  const parts = waits.map(({ counter, threshold }) => {
    const edge = [...trace.edgesTo(it.execution)].find((e) => columns["edge.counter"][e] === counter);
    const last = edge === undefined ? -1 : columns["edge.from"][edge];
    const producers = trace.producersOf(counter, threshold > 0 ? it.pass : it.pass - 1);
    const signalled = (execution) => trace.eventTime(execution, "signalled");
    producers.sort((a, b) => (b === last) - (a === last) || signalled(b) - signalled(a));
    const note = (execution) =>
      `${execution === last ? "last, " : ""}${overLink(trace, execution, it.execution)}` +
      `at ${formatTime(pane.relative(signalled(execution)))}`;
    const guarded = guardedBy(it.text, counter).replaceAll(" ", ", ");
    return element("div", {},
      element("p", {}, element("code", {}, `c${counter} ≥ ${threshold}`), guarded && ` for ${guarded}`,
              threshold > 0 ? "" : ", of the token before"),
      producers.length === 0 ? element("p", { class: "quiet" }, "not in this trace") : null,
      partners(app, pane, producers, note));
  });
  return element("div", { id: "waited-for" }, element("h4", {}, "Waited for"),
                 ...(parts.length ? parts : [element("p", { class: "quiet" }, "nothing")]));
}

function waitedBy(app, pane, it) {
  const { trace } = pane;
  const parts = trace.signalsOf(it.instruction).map(({ counter, increment }) => {
    const waiters = trace.waitersOf(counter, it.pass);
    const ready = (execution) => trace.eventTime(execution, "inputs_ready");
    waiters.sort((a, b) => ready(a) - ready(b));
    return element("div", {},
      element("p", {}, element("code", {}, `c${counter} + ${increment}`)),
      partners(app, pane, waiters, (execution) =>
        ready(execution) < 0 ? "" : `${overLink(trace, it.execution, execution)}` +
                                    `ready at ${formatTime(pane.relative(ready(execution)))}`));
  });
  return element("div", { id: "waited-by" }, element("h4", {}, "Who waits for it"),
                 ...(parts.length ? parts : [element("p", { class: "quiet" }, "nobody")]));
}

// The listing is "op name=value … | wait … | signal …".
function operands(text) {
  const pairs = text.split(" | ")[0].split(" ").slice(1).map((word) => word.split(/=(.*)/s, 2));
  const rows = pairs.filter(([name]) => name !== "layer").map(([name, value]) =>
    element("tr", {}, element("td", {}, name), element("td", { class: "mono" }, value)));
  return element("div", {}, element("h4", {}, "Operands"), plainTable([["operand"], ["value"]], rows));
}

// The time in each state within a range, added up over all shown rows of a pane.
function timesOfRange(pane, { begin, end }) {
  const { trace } = pane;
  const from = begin + pane.window.begin, to = end + pane.window.begin;
  const times = new Float64Array(trace.head.states.length);
  for (const row of pane.rowLayout.rows) {
    for (let s = trace.firstEndingAfter(row, from); s < trace.rowBegin[row + 1] && trace.begin[s] < to; ++s) {
      times[trace.state[s]] += Math.min(to, trace.finish[s]) - Math.max(from, trace.begin[s]);
    }
  }
  const all = (to - from) * pane.rowLayout.rows.length;
  times[trace.head.states.indexOf("idle")] = all - times.reduce((a, b) => a + b, 0);
  return trace.head.states.map((state, s) => ({ state, share: all > 0 ? times[s] / all : 0 }));
}

function rangeSection(app) {
  const { begin, end } = app.range;
  const columns = [
    { name: "state", of: (row) => row.state },
    ...app.panes.map((pane, p) => ({
      name: app.panes.length > 1 ? pane.name : "share of the rows' time",
      of: (row) => row.shares[p], show: formatPercent, number: true, bar: true,
    })),
  ];
  const shares = app.panes.map((pane) => timesOfRange(pane, app.range));
  const rows = shares[0].map(({ state }, s) => ({ state, shares: shares.map((of) => of[s]?.share ?? 0) }));
  const note = `${formatTime(begin)} to ${formatTime(end)}: ${formatTime(end - begin)}`;
  return new Table("Range", columns, rows, note).element;
}
