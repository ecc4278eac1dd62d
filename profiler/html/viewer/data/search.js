// Finding instructions. A query is words that must all be there: "layer=3" is an operand or the layer as a whole word,
// "sm=17", "pc=4" and "#120" (the index in the program) likewise; any other word may stand anywhere in the listing.

function matcherOf(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return (text) => words.every((word) => (/[=#]/.test(word) ? text.includes(` ${word} `) : text.includes(word)));
}

class Search {
  constructor(panes) {
    this.panes = panes;
    this.texts = panes.map(({ trace }) => Search.#textsOf(trace));
    this.clear();
  }

  static #textsOf({ columns }) {
    return columns["instruction.text"].map((text, i) => {
      const place = `sm=${columns["instruction.queue"][i]} pc=${columns["instruction.pc"][i]} #${i}`;
      return ` ${text} ${place} `.toLowerCase();
    });
  }

  clear() {
    this.query = "";
    this.found = null; // by pane: Uint8Array by instruction
    this.hits = []; // { pane, execution } in order of time
    this.current = -1;
  }

  // Hits are executions of the tokens that are shown.
  run(query) {
    this.clear();
    const matches = matcherOf(query);
    if (!matches) return;
    this.query = query;
    this.found = this.texts.map((texts) => Uint8Array.from(texts, (text) => matches(text)));
    this.hits = this.panes.flatMap((pane, p) => this.#hitsOf(pane, this.found[p]));
  }

  #hitsOf(pane, found) {
    const { columns } = pane.trace;
    const hits = [];
    columns["execution.instruction"].forEach((instruction, execution) => {
      if (!found[instruction] || columns["execution.pass"][execution] !== pane.window.pass) return;
      hits.push({ pane, execution, time: columns["execution.begin"][execution] });
    });
    return hits.sort((a, b) => a.time - b.time);
  }

  matches(pane, execution) {
    return this.found === null ||
           this.found[this.panes.indexOf(pane)][pane.trace.columns["execution.instruction"][execution]] === 1;
  }

  // Goes `by` hits on, round and round; null if there is none.
  step(by) {
    const count = this.hits.length;
    if (count === 0) return null;
    this.current = this.current < 0 && by > 0 ? 0 : (this.current + by + count) % count;
    return this.hits[this.current];
  }

  get status() {
    if (this.found === null) return "";
    if (!this.hits.length) return "none";
    return this.current < 0 ? `${formatCount(this.hits.length)} found` : `${this.current + 1} of ${formatCount(this.hits.length)}`;
  }
  // Times of all hits by pane, for the strip of the whole trace.
  get marks() {
    const marks = new Map(this.panes.map((pane) => [pane, []]));
    for (const { pane, time } of this.hits) marks.get(pane).push(time);
    return marks;
  }
}
