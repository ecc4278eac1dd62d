// The panel that compares two traces: profiler/report/diff.h's figures, as its to_json writes them.

function showDiff(app, panel) {
  const names = app.panes.map((pane) => pane.name);
  const { token, slower, path, ops } = app.diff;
  const text = `${formatPercent(Math.abs(slower))} ${slower > 0 ? "slower" : "faster"}`;
  panel.replaceChildren(
    element("h3", {}, `${names[0]} \u2192 ${names[1]}`),
    element("p", { class: "summary" }, `${formatTime(token.before_ns)} \u2192 ${formatTime(token.after_ns)} a token: `,
            element("b", { class: lookOf(token) }, text)),
    diffTable(app, "On the critical path", path, "µs a token"),
    diffTable(app, "By op, of all states", ops, "µs a token on an average SM"));
}

function lookOf({ difference_ns: difference }) {
  return difference > 0 ? "worse" : difference < 0 ? "better" : null;
}

function diffTable(app, caption, rows, note) {
  const signed = (ns) => (ns > 0 ? "+" : "") + formatMicros(ns);
  return new Table(caption, [
    { name: "op", of: (row) => row.op, go: (row) => app.searchFor(row.op) },
    { name: "state", of: (row) => row.state },
    { name: "before", of: (row) => row.before_ns, show: formatMicros, number: true },
    { name: "after", of: (row) => row.after_ns, show: formatMicros, number: true },
    { name: "change", of: (row) => row.difference_ns, show: signed, number: true, bar: true, class: lookOf },
  ], rows, note).element;
}
