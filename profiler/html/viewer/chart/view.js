// The time in view, the same for all panes: nanoseconds since the beginning of the token that each of them
// shows. It moves smoothly unless the reader has asked for less motion.

const kNearestView = 20; // ns: as far as one can zoom in
const kBeyondToken = 0.02; // of a token's length, at both sides of it
const kMotionMs = 130;

class TimeView {
  constructor(panes, onChange) {
    this.panes = panes;
    this.onChange = onChange;
    this.now = null; // { begin, end }: the time that is drawn
    this.motion = null; // { from, to, since }
    this.lessMotion = matchMedia("(prefers-reduced-motion: reduce)");
  }

  get wanted() {
    return this.motion?.to ?? this.now;
  }
  contains(time) {
    return time >= this.wanted.begin && time <= this.wanted.end;
  }

  set(begin, end, { smooth = false } = {}) {
    const to = this.#clamp(begin, end);
    if (smooth && this.now && !this.lessMotion.matches) {
      this.motion = { from: this.now, to, since: performance.now() };
    } else {
      this.now = to;
      this.motion = null;
    }
    this.onChange();
  }

  // To the moment `ms` of performance.now(); returns true while it moves.
  advance(ms) {
    if (!this.motion) return false;
    const { from, to, since } = this.motion;
    const part = Math.min(1, Math.max(0, ms - since) / kMotionMs);
    const eased = 1 - (1 - part) ** 3;
    const between = (a, b) => a + (b - a) * eased;
    this.now = { begin: between(from.begin, to.begin), end: between(from.end, to.end) };
    if (part === 1) this.motion = null;
    return this.motion !== null;
  }

  // `anchor` stays where it is.
  zoom(factor, anchor, { smooth = true } = {}) {
    const { begin, end } = this.wanted;
    const length = Math.max(kNearestView, (end - begin) * factor);
    const share = (anchor - begin) / (end - begin);
    this.set(anchor - share * length, anchor + (1 - share) * length, { smooth });
  }
  pan(share, { smooth = true } = {}) {
    const { begin, end } = this.wanted;
    this.set(begin + share * (end - begin), end + share * (end - begin), { smooth });
  }
  centre(time) {
    const half = (this.now.end - this.now.begin) / 2;
    this.set(time - half, time + half);
  }
  showToken({ smooth = true } = {}) {
    const length = Math.max(...this.panes.map((pane) => pane.length));
    this.set(-kBeyondToken * length, (1 + kBeyondToken) * length, { smooth });
  }
  showTrace() {
    const { least, most } = this.#bounds;
    this.set(least, most, { smooth: true });
  }
  // Zooms so that the range takes `share` of the view.
  showSpan({ begin, end }, share) {
    const length = (end - begin) / share, middle = (begin + end) / 2;
    this.set(middle - length / 2, middle + length / 2, { smooth: true });
  }
  // Moves no further than it has to.
  bringIntoView({ begin, end }, share) {
    if (this.contains(begin) && this.contains(end)) return;
    const length = Math.max(this.wanted.end - this.wanted.begin, (end - begin) / share), middle = (begin + end) / 2;
    this.set(middle - length / 2, middle + length / 2, { smooth: true });
  }

  // From the first event of the traces to the last.
  get #bounds() {
    return {
      least: Math.min(...this.panes.map((pane) => pane.relative(0))),
      most: Math.max(...this.panes.map((pane) => pane.relative(pane.trace.end))),
    };
  }
  #clamp(begin, end) {
    const { least, most } = this.#bounds;
    const margin = kBeyondToken * Math.max(...this.panes.map((pane) => pane.length));
    const length = Math.min(Math.max(end - begin, kNearestView), most - least + 2 * margin);
    const first = Math.min(Math.max((begin + end - length) / 2, least - margin), most + margin - length);
    return { begin: first, end: first + length };
  }
}
