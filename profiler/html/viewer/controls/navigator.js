// Moves from slice to slice: along rows and the critical path, over the edges of waits, from hit to hit, from
// one trace to the other.

class Navigator {
  constructor(app) {
    this.app = app;
  }

  stepSlice(by) {
    const { pane, slice } = this.app.current;
    if (slice < 0) return this.#selectAny(pane);
    const row = pane.trace.rowOfSlice(slice);
    const next = slice + by;
    if (next >= pane.trace.rowBegin[row] && next < pane.trace.rowBegin[row + 1]) this.app.reveal(pane, next);
  }

  stepRow(by) {
    const { pane, slice } = this.app.current;
    if (slice < 0) return this.#selectAny(pane);
    const { trace, rowLayout } = pane;
    const time = (trace.begin[slice] + trace.finish[slice]) / 2;
    for (let i = rowLayout.rows.indexOf(trace.rowOfSlice(slice)) + by; i >= 0 && i < rowLayout.rows.length; i += by) {
      const near = this.#nearest(trace, rowLayout.rows[i], time);
      if (near >= 0) return this.app.reveal(pane, near);
    }
  }

  // The slice of a row at a time, or the one after it, or the last; -1 if the row has none.
  #nearest(trace, row, time) {
    const slice = Math.min(trace.firstEndingAfter(row, time), trace.rowBegin[row + 1] - 1);
    return slice >= trace.rowBegin[row] ? slice : -1;
  }

  // In the middle of what is in view.
  #selectAny(pane) {
    const { begin, end } = this.app.view.wanted;
    const { first, last } = pane.visibleRows;
    const row = pane.rowLayout.rows[(first + last) >> 1];
    this.app.reveal(pane, this.#nearest(pane.trace, row, (begin + end) / 2 + pane.window.begin));
  }

  stepPath(by) {
    const { pane, slice } = this.app.current;
    const { trace } = pane;
    const path = trace.columns["path.execution"].subarray(trace.pathBegin[pane.token], trace.pathBegin[pane.token + 1]);
    const executions = [...new Set(path)];
    if (!executions.length) return this.app.announce("no critical path");
    const at = slice < 0 ? -1 : executions.indexOf(trace.execution[slice]);
    const start = by > 0 ? 0 : executions.length - 1;
    const next = at < 0 ? start : Math.min(executions.length - 1, Math.max(0, at + by));
    this.app.reveal(pane, trace.mainSlice(executions[next]));
  }

  // To the producer that signalled last before the selection, or to the first waiter after it.
  toProducer() {
    this.#follow("edge.from", (trace, execution) => trace.edgesTo(execution), (a, b) => b - a);
  }
  toWaiter() {
    this.#follow("edge.to", (trace, execution) => trace.edgesFrom(execution), (a, b) => a - b);
  }
  #follow(end, edgesOf, order) {
    const { pane, slice } = this.app.current;
    if (slice < 0) return;
    const { trace } = pane;
    const ready = (edge) => trace.eventTime(trace.columns["edge.to"][edge], "inputs_ready");
    const [edge] = [...edgesOf(trace, trace.execution[slice])].sort((a, b) => order(ready(a), ready(b)));
    if (edge === undefined) return this.app.announce("none");
    this.app.reveal(pane, trace.mainSlice(trace.columns[end][edge]));
  }

  stepHit(by) {
    const hit = this.app.search.step(by);
    if (hit) this.app.reveal(hit.pane, hit.pane.trace.mainSlice(hit.execution));
    this.app.redraw();
  }

  // Selects the same instruction in the other trace.
  toOtherPane() {
    const { panes } = this.app;
    const { pane, slice } = this.app.current;
    const other = panes[(panes.indexOf(pane) + 1) % panes.length];
    other.chart.focus({ preventScroll: true });
    if (slice < 0 || other === pane) return;
    const { instruction } = pane.trace.describe(pane.trace.execution[slice]);
    const same = other.trace.executionOf(instruction, other.window.pass);
    if (same >= 0) this.app.reveal(other, other.trace.mainSlice(same));
  }
}
