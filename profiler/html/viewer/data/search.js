// Search for instructions. All words of a query must match: "layer=3", "first_unit=0", "pc=4" and "#120" (the
// index in the program) match whole words, "sm=17" what ran there, as its GPU numbers it, "gpu=1" what ran on
// one of several; any other word may occur anywhere in the listing.

class Query {
  constructor(text) {
    this.text = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const isPlace = (word) => /^(sm|gpu)=\d+$/.test(word);
    const numbersOf = (name) =>
      words.filter((word) => isPlace(word) && word.startsWith(name)).map((word) => Number(word.split("=")[1]));
    this.sms = numbersOf("sm");
    this.ranks = numbersOf("gpu");
    this.words = words.filter((word) => !isPlace(word));
    this.isEmpty = words.length === 0;
  }

  matchesText(text) {
    return this.words.every((word) => (/[=#]/.test(word) ? text.includes(` ${word} `) : text.includes(word)));
  }
  // `sm`: as the trace numbers it.
  matchesPlace(trace, sm) {
    return this.sms.every((wanted) => wanted === trace.localSm(sm)) &&
      this.ranks.every((wanted) => wanted === trace.rankOf(sm));
  }
}

class Search {
  constructor(panes) {
    this.panes = panes;
    this.texts = new Map(panes.map((pane) => [pane, Search.#textsOf(pane.trace)]));
    this.run("");
  }

  static #textsOf({ columns }) {
    return columns["instruction.text"].map((text, i) =>
      ` ${text} pc=${columns["instruction.pc"][i]} #${i} `.toLowerCase());
  }

  // Hits are executions of the tokens that are shown.
  run(text) {
    this.query = new Query(text);
    this.hits = []; // { pane, execution, time } in order of time, pane after pane
    this.current = -1;
    this.found = null; // [pane] for each execution: true if it matches
    if (this.query.isEmpty) return;
    this.found = new Map(this.panes.map((pane) => [pane, this.#match(pane)]));
    this.hits = this.panes.flatMap((pane) => this.#hitsOf(pane));
  }

  #match(pane) {
    const instructions = this.texts.get(pane).map((text) => this.query.matchesText(text));
    const { columns } = pane.trace;
    return Uint8Array.from(columns["execution.instruction"], (instruction, execution) =>
      instructions[instruction] && this.query.matchesPlace(pane.trace, columns["execution.sm"][execution]));
  }

  #hitsOf(pane) {
    const { columns } = pane.trace;
    const hits = [];
    this.found.get(pane).forEach((found, execution) => {
      if (!found || columns["execution.pass"][execution] !== pane.window.pass) return;
      hits.push({ pane, execution, time: columns["execution.begin"][execution] });
    });
    return hits.sort((a, b) => a.time - b.time);
  }

  matches(pane, execution) {
    return this.found === null || this.found.get(pane)[execution] === 1;
  }

  // Goes `by` hits on, round and round; null if there is none.
  step(by) {
    const count = this.hits.length;
    if (count === 0) return null;
    this.current = this.current < 0 && by > 0 ? 0 : (this.current + by + count) % count;
    return this.hits[this.current];
  }

  get status() {
    const count = formatCount(this.hits.length);
    if (this.query.isEmpty) return "";
    if (!this.hits.length) return "none";
    return this.current < 0 ? `${count} found` : `${this.current + 1} of ${count}`;
  }
  // Times of all hits by pane, for the strip of the whole trace.
  get marks() {
    const marks = new Map(this.panes.map((pane) => [pane, []]));
    for (const { pane, time } of this.hits) marks.get(pane).push(time);
    return marks;
  }
}
