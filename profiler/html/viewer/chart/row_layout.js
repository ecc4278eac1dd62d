// Where rows stand in a chart: which are shown, in which order, how high. Heights are device pixels: whole ones, so
// that a row is never blurred over two; but low rows by role, whose neighbours look alike, fill the space there is.

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
    this.groups = []; // { key: SM or role, top, height }
    this.height = 1;
    this.total = 0;
  }

  // by: "sm" or "role"; shown: [role] → boolean.
  arrange(by, shown, height) {
    const { sms } = this.trace;
    const roles = shown.flatMap((on, role) => (on ? [role] : []));
    const allSms = Array.from({ length: sms }, (_, sm) => sm);
    const groups = by === "sm" ? allSms : roles;
    const members = by === "sm" ? roles : allSms;
    this.by = by;
    this.height = height;
    this.members = members.length;
    this.rows = groups.flatMap((group) =>
      members.map((member) => (by === "sm" ? this.trace.rowOf(group, member) : this.trace.rowOf(member, group))),
    );
    const gap = RowLayout.#gapFor(by, members.length, height);
    this.tops.fill(-1);
    this.rows.forEach((row, i) => {
      this.tops[row] = i * height + Math.floor(i / members.length) * gap;
    });
    this.groups = groups.map((key, g) => ({
      key,
      top: g * (members.length * height + gap),
      height: members.length * height,
    }));
    this.total = Math.max(0, groups.length * (members.length * height + gap) - gap);
  }

  // A group of one row needs no gap where rows are thin.
  static #gapFor(by, members, height) {
    if (by === "role") return Math.max(kBlurredBelow, Math.round(height * kGroupGap));
    if (members === 1) return height > 3 ? 1 : 0;
    return Math.round(height * kGroupGap);
  }

  // The largest row height with which everything fits into `space`, as far as there is one.
  heightThatFits(by, shown, space) {
    for (let height = kMaxRowHeight; height >= (by === "sm" ? 1 : kBlurredBelow); --height) {
      this.arrange(by, shown, height);
      if (this.total <= space) return height;
    }
    if (by === "sm") return 1; // roles would run into one another
    this.arrange(by, shown, 1);
    const gaps = this.total - this.rows.length;
    return Math.max(kLeastRowHeight, (space - gaps) / this.rows.length);
  }

  // The row at a height from the top of all rows; -1 between two groups or behind the last.
  rowAt(top) {
    const row = this.rows[this.firstBelow(top)];
    return row !== undefined && this.tops[row] <= top ? row : -1;
  }
  // The index in `rows` of the first row that ends below `top`.
  firstBelow(top) {
    return firstThat(0, this.rows.length, (i) => this.tops[this.rows[i]] + this.height > top);
  }
}
