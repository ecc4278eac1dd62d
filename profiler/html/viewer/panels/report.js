// The panel with the report's tables: profiler/report/report.h's figures, as its to_json writes them.

function showReport(app, panel) {
  panel.replaceChildren(...app.panes.flatMap((pane) => reportSections(app, pane)));
}

function reportSections(app, pane) {
  const { report } = pane.trace.head;
  return [
    element("h3", {}, app.panes.length > 1 ? `Report of ${pane.name}` : "Report"),
    summary(report),
    savingsTable(report),
    pathTable(app, report),
    opsTable(app, report),
    exchangeTable(app, report),
    rateChart(pane, "Bandwidth", "GB/s"),
    arithmeticChart(pane),
    smTable(app, pane),
    stragglerTable(app, pane),
    imbalance(report),
  ].filter(Boolean);
}

// States the bytes that the token read, and its operations if these take longer at the limit than reading.
function summary(report) {
  const limit = (rate, most, unit) =>
    most ? `, ${formatPercent(rate / most)} of the limit of ${formatCount(most)} ${unit}` : "";
  const lines = [`${formatBytes(report.bytes)} at ${formatCount(report.gb_per_s)} GB/s` +
    `${limit(report.gb_per_s, report.limit_gb_per_s, "GB/s")}.`];
  if (report.compute_limit_ns > report.limit_ns) {
    lines.push(`${formatCount(report.tflop_per_s)} TFLOP/s` +
      `${limit(report.tflop_per_s, report.limit_tflop_per_s, "TFLOP/s")}.`,
      `Computing takes ${formatTime(report.compute_limit_ns)} at least.`);
  } else if (report.limit_ns) {
    lines.push(`Reading them takes ${formatTime(report.limit_ns)} at least.`);
  }
  return element("p", { class: "summary" },
    element("b", {}, formatTime(report.median_token_ns)), ` a token (median of ${report.tokens}); `, lines.join(" "));
}

function savingsTable({ savings, median_token_ns: token }) {
  if (!savings?.length) return null;
  return new Table("What would save most", [
    { name: "change", of: (row) => row.change },
    { name: "saves, µs", of: (row) => row.saved_ns, show: formatMicros, number: true, bar: true },
    { name: "of a token", of: (row) => row.saved_ns / token, show: formatPercent, number: true },
  ], savings, "as the simulator predicts").element;
}

function pathTable(app, { path }) {
  const total = path.reduce((sum, row) => sum + row.ns, 0);
  return new Table("Critical path by op and state", [
    { name: "op", of: (row) => row.op, go: (row) => app.searchFor(row.op) },
    { name: "state", of: (row) => row.state },
    { name: "steps", of: (row) => row.steps, show: formatCount, number: true },
    { name: "µs", of: (row) => row.ns, show: formatMicros, number: true, bar: true },
    { name: "share", of: (row) => row.ns / total, show: formatPercent, number: true },
  ], path, `${formatTime(total)} a token`).element;
}

const kOpTimes = ["wait", "load", "compute", "store"];

function opsTable(app, { ops, sms }) {
  return new Table("Where each op's time goes", [
    { name: "op", of: (row) => row.op, go: (row) => app.searchFor(row.op) },
    ...kOpTimes.map((name) => ({
      name, of: (row) => row[`${name}_ns`] / sms, show: formatMicros, number: true, bar: true,
    })),
    { name: "bytes", of: (row) => row.bytes, show: formatBytes, number: true },
  ], ops, "µs a token, mean of all SMs").element;
}

function exchangeTable(app, { exchanges, sms }) {
  if (!exchanges?.length) return null;
  const time = (name, title) => ({
    name, title, of: (row) => row[`${name}_ns`] / sms, show: formatMicros, number: true, bar: true,
  });
  return new Table("Exchanges between GPUs, by what pushes", [
    { name: "op", of: (row) => row.op, go: (row) => app.searchFor(row.op) },
    { name: "times", of: (row) => row.exchanges, show: formatCount, number: true },
    { name: "bytes", of: (row) => row.bytes, show: formatBytes, number: true },
    { name: "transit", title: "from the signal until an SM that waits for it has seen it", of: (row) => row.transit_ns,
      show: formatMicros, number: true },
    time("exposed", "consumers waited for nothing but another GPU's data"),
    time("hidden", "it was there, or on its way, while consumers did something else"),
  ], exchanges, "exposed and hidden: µs a token, mean of all SMs; transit: µs each").element;
}

function trackNamed(pane, name) {
  return pane.trace.head.tracks.findIndex((track) => track.name === name);
}

// A track over the whole trace, and its limit where there is one.
function rateChart(pane, what, unit) {
  const index = trackNamed(pane, unit);
  if (index < 0) return null;
  const { value } = trackPoints(pane.trace, index);
  const { limit } = pane.trace.head.tracks[index];
  const label = `${what} over the whole trace, up to ${formatCount(Math.max(...value))} ${unit}`;
  const dashed = limit ? `; the dashed line is the limit, ${formatCount(limit)} ${unit}` : "";
  return figure(`${what} over time`, label + dashed, smallChart(label, [...value], limit));
}

// Shown only if arithmetic comes near its limit.
function arithmeticChart(pane) {
  return pane.trace.head.tracks[trackNamed(pane, "TFLOP/s")]?.limit ? rateChart(pane, "Arithmetic", "TFLOP/s") : null;
}

function figure(title, note, chart) {
  return element("section", { class: "table" }, element("h4", {}, title), element("p", { class: "note" }, note), chart);
}

function smTable(app, pane) {
  const { by_sm: rows } = pane.trace.head.report;
  const shown = (sm) => (pane.trace.ranks > 1 ? pane.trace.smName(sm) : `${sm}`);
  const time = (name) => ({
    name, of: (row) => row[`${name}_ns`], show: formatMicros, number: true, bar: true,
  });
  return new Table("Bubbles of each SM, by what its consumers waited for", [
    { name: "SM", of: (row) => row.sm, show: shown, number: true, go: (row) => app.showSm(pane, row.sm) },
    { ...time("wait"), title: "for counters" },
    { ...time("load"), title: "for pages or activations" },
    { ...time("idle"), title: "for a record, or for the token's end" },
    { ...time("compute"), title: "no bubble" },
    { name: "longest for", of: (row) => row.worst_wait, title: "the op whose inputs it waited for longest" },
  ], rows, "µs a token").element;
}

function stragglerTable(app, pane) {
  const { stragglers } = pane.trace.head.report;
  if (!stragglers.length) return null;
  return new Table("Stragglers", [
    { name: "op", of: (row) => row.op, go: (row) => app.reveal(pane, pane.trace.mainSlice(row.execution)) },
    { name: "layer", of: (row) => row.layer ?? "", number: true },
    { name: "SM", of: (row) => row.sm, show: (sm) => (pane.trace.ranks > 1 ? pane.trace.smName(sm) : `${sm}`),
      number: true },
    { name: "join", of: (row) => `c${row.counter}` },
    { name: "late, µs", of: (row) => row.late_ns, show: formatMicros, number: true, bar: true },
  ], stragglers, "after the median producer of the join that they held up").element;
}

function imbalance(report) {
  const note = `The fullest SM has ${formatPercent(report.imbalance)} more bytes than the mean, and computes ` +
    `${formatPercent(report.compute_imbalance)} longer at most.`;
  const label = "Time in which consumers compute, SM by SM";
  return figure("Imbalance", `${note} ${label}:`, smallChart(label, report.by_sm.map((sm) => sm.compute_ns)));
}
