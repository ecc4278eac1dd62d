// The places of rows in a chart: which are shown, in which order, how high. With several GPUs each has a
// heading, and its rows stand below it unless it is folded. Heights are whole device pixels, so that a row is
// never blurred over two. Only low rows by role, whose neighbours look alike, fill the space exactly.

const kMaxRowHeight = 40;
const kBlurredBelow = 4;
const kLeastRowHeight = 0.2;
// Between groups, as a share of a row.
const kGroupGap = 0.5;

class RowLayout {
  constructor(trace) {
    this.trace = trace;
    this.rows = []; // in order from top to bottom
    this.tops = new Float64Array(trace.sms * trace.roles.length); // by row; -1: not shown
    this.groups = []; // { key: SM or role, rank, top, height }
    this.headings = []; // of GPUs, where there are several: { rank, top, height, folded }
    this.height = 1;
    this.total = 0;
  }

  // by: "sm" or "role"; shown: [role] → boolean; headings: { height, folded: [rank] → boolean } of GPUs, under which
  // their rows stand.
  arrange(by, shown, height, headings) {
    const roles = shown.flatMap((on, role) => (on ? [role] : []));
    this.by = by;
    this.height = height;
    this.members = by === "sm" ? roles.length : this.trace.smsOfRank;
    this.gap = RowLayout.#gapFor(by, this.members, height);
    this.rows = [];
    this.groups = [];
    this.headings = [];
    this.tops.fill(-1);
    this.total = 0;
    for (let rank = 0; rank < this.trace.ranks; ++rank) {
      if (this.trace.ranks > 1) this.#addHeading(rank, headings);
      if (!headings.folded[rank]) this.#addRank(rank, roles);
    }
    const last = this.groups.at(-1);
    if (last && last.top + last.height + this.gap === this.total) this.total -= this.gap;
  }

  #addHeading(rank, { height, folded }) {
    this.headings.push({ rank, top: this.total, height, folded: Boolean(folded[rank]) });
    this.total += height;
  }

  #addRank(rank, roles) {
    const { by, height, members, trace } = this;
    const sms = Array.from({ length: trace.smsOfRank }, (_, sm) => rank * trace.smsOfRank + sm);
    for (const key of by === "sm" ? sms : roles) {
      const top = this.total;
      (by === "sm" ? roles : sms).forEach((member, m) => {
        const row = by === "sm" ? trace.rowOf(key, member) : trace.rowOf(member, key);
        this.rows.push(row);
        this.tops[row] = top + m * height;
      });
      this.groups.push({ key, rank, top, height: members * height });
      this.total += members * height + this.gap;
    }
  }

  // A group of one row needs no gap where rows are thin.
  static #gapFor(by, members, height) {
    if (by === "role") return Math.max(kBlurredBelow, Math.round(height * kGroupGap));
    if (members === 1) return height > 3 ? 1 : 0;
    return Math.round(height * kGroupGap);
  }

  // The largest row height with which everything fits into `space`, as far as there is one.
  heightThatFits(by, shown, space, headings) {
    for (let height = kMaxRowHeight; height >= (by === "sm" ? 1 : kBlurredBelow); --height) {
      this.arrange(by, shown, height, headings);
      if (this.total <= space) return height;
    }
    if (by === "sm") return 1; // roles would run into one another
    this.arrange(by, shown, 1, headings);
    if (this.rows.length === 0) return 1; // all GPUs are folded
    const gaps = this.total - this.rows.length;
    return Math.max(kLeastRowHeight, (space - gaps) / this.rows.length);
  }

  // The heading at a height from the top of all rows; undefined if there is none.
  headingAt(top) {
    return this.headings.find((heading) => heading.top <= top && top < heading.top + heading.height);
  }
  // The row at a height from the top of all rows; -1 between two groups or after the last.
  rowAt(top) {
    const row = this.rows[this.firstBelow(top)];
    return row !== undefined && this.tops[row] <= top ? row : -1;
  }
  // The index in `rows` of the first row that ends below `top`.
  firstBelow(top) {
    return firstThat(0, this.rows.length, (i) => this.tops[this.rows[i]] + this.height > top);
  }
}
