// Mouse, pen and touch on a chart: drag to pan, shift and drag (or drag on the ruler) to mark a range, wheel to
// scroll, ctrl and wheel to zoom, click to select or to fold a GPU, double click to zoom to a slice.

const kDragFrom = 4; // CSS pixels; less is a click
const kZoomPerWheel = 0.0022;
const kThumbWidth = 10;

class Pointer {
  constructor(app, pane) {
    this.app = app;
    this.pane = pane;
    this.drag = null;
    const on = (type, handle, options) => pane.chart.addEventListener(type, handle.bind(this), options);
    on("pointerdown", this.#down);
    on("pointermove", this.#move);
    on("pointerup", this.#up);
    on("pointercancel", this.#up);
    on("pointerleave", () => this.app.hover(null));
    on("dblclick", this.#zoomToSlice);
    on("wheel", this.#wheel, { passive: false });
  }

  // Device pixels of the chart.
  #at(event) {
    const box = this.pane.chart.getBoundingClientRect();
    return { x: (event.clientX - box.left) * this.pane.ratio, y: (event.clientY - box.top) * this.pane.ratio };
  }

  #down(event) {
    if (event.button !== 0) return;
    const { x, y } = this.#at(event);
    this.pane.chart.setPointerCapture(event.pointerId);
    const kind = this.#kindOf(event, x, y);
    this.drag = { kind, x, y, moved: false, view: this.app.view.now, scroll: this.pane.scroll };
    if (this.drag.kind === "overview") this.#drag(x, y);
  }

  #kindOf(event, x, y) {
    const { pane } = this;
    if (y < pane.rulerArea.y) return "overview";
    if (x > pane.width - pane.px(kThumbWidth)) return "scroll";
    return event.shiftKey || y < pane.rowsArea.y ? "range" : "pan";
  }

  #move(event) {
    const { x, y } = this.#at(event);
    if (!this.drag) {
      this.app.hover({ pane: this.pane, slice: this.pane.sliceAt(x, y), time: this.pane.timeAt(x) },
                     { x: event.clientX, y: event.clientY });
      return;
    }
    this.drag.moved ||= Math.hypot(x - this.drag.x, y - this.drag.y) > this.pane.px(kDragFrom);
    if (this.drag.moved) this.#drag(x, y);
  }

  #drag(x, y) {
    const { app, pane, drag } = this;
    if (drag.kind === "overview") {
      const time = ((x - pane.overviewArea.x) / pane.overviewArea.width) * pane.trace.end;
      app.view.centre(pane.relative(time));
    } else if (drag.kind === "scroll") {
      app.scroll(pane, drag.scroll + ((y - drag.y) * pane.rowLayout.total) / pane.rowsArea.height);
    } else if (drag.kind === "range") {
      app.setRange(...[pane.timeAt(drag.x), pane.timeAt(x)].sort((a, b) => a - b));
    } else {
      const shift = (drag.x - x) / pane.perNs;
      app.scroll(pane, drag.scroll + drag.y - y);
      app.view.set(drag.view.begin + shift, drag.view.end + shift);
    }
  }

  #up(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag || drag.moved || event.type === "pointercancel") return;
    if (drag.kind === "range") this.app.clearRange();
    else if (drag.kind === "pan") this.#click(drag);
  }

  #click({ x, y }) {
    const rank = this.pane.rankAt(y);
    if (rank >= 0) this.app.toggleRank(rank);
    else this.app.select(this.pane, this.pane.sliceAt(x, y));
  }

  #zoomToSlice(event) {
    const { x, y } = this.#at(event);
    if (this.pane.sliceAt(x, y) >= 0) this.app.zoomToSelection();
  }

  #wheel(event) {
    event.preventDefault();
    const { app, pane } = this;
    const { x } = this.#at(event);
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const deltaX = event.deltaX * unit, deltaY = event.deltaY * unit;
    if (event.ctrlKey || event.metaKey) {
      app.view.zoom(Math.exp(deltaY * kZoomPerWheel), pane.timeAt(Math.max(x, pane.rowsArea.x)), { smooth: false });
    } else if (event.altKey) {
      app.changeRowHeight(deltaY < 0 ? 1 : -1);
    } else {
      const sideways = event.shiftKey ? deltaX + deltaY : deltaX;
      if (sideways) app.view.pan((sideways * pane.ratio) / pane.rowsArea.width, { smooth: false });
      if (!event.shiftKey && deltaY) app.scroll(pane, pane.scroll + deltaY * pane.ratio);
    }
  }
}
