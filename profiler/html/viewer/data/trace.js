// One trace: the data that panes draw and panels ask for. Times are nanoseconds since the trace's beginning;
// a row is SM × role, in the order of the slices. SMs are numbered GPU after GPU. An index is -1 if there is
// none.

const kNoLayer = 0xffff;

function runningTotal(counts) {
  const begins = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; ++i) begins[i + 1] = begins[i] + counts[i];
  return begins;
}

// Lists of items by key: those of key k are items[begin[k]] to items[begin[k + 1] - 1], in order of item.
function groupBy(keys, numKeys) {
  const counts = new Uint32Array(numKeys);
  for (const key of keys) ++counts[key];
  const begin = runningTotal(counts);
  const next = begin.slice();
  const items = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; ++i) items[next[keys[i]]++] = i;
  return (key) => items.subarray(begin[key], begin[key + 1]);
}

// The first index in [low, high) for which `holds` is true; it must stay true from there on. `high` if there
// is none.
function firstThat(low, high, holds) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

class Trace {
  constructor(head, columns) {
    this.head = head;
    this.columns = columns;
    this.sms = head.machine.sms;
    this.ranks = head.machine.ranks ?? 1;
    this.smsOfRank = this.sms / this.ranks;
    this.roles = head.roles;
    this.windows = head.windows;
    this.rowBegin = runningTotal(columns["row.slices"]);
    this.numSlices = this.rowBegin.at(-1);
    this.state = columns["slice.state"];
    this.execution = columns["slice.execution"];
    this.#placeSlices(columns["slice.gap"], columns["slice.duration"]);
    this.#indexProgram();
    this.slicesOfExecution = groupBy(this.execution, columns["execution.instruction"].length);
    this.#placePath();
    this.end = Math.max(...this.windows.map((window) => window.end), this.#lastEnd());
  }

  #placeSlices(gaps, durations) {
    this.begin = new Float64Array(this.numSlices);
    this.finish = new Float64Array(this.numSlices);
    for (let row = 0; row + 1 < this.rowBegin.length; ++row) {
      let time = 0;
      for (let i = this.rowBegin[row]; i < this.rowBegin[row + 1]; ++i) {
        this.begin[i] = time += gaps[i];
        this.finish[i] = time += durations[i];
      }
    }
  }

  #lastEnd() {
    let last = 0;
    for (let row = 0; row + 1 < this.rowBegin.length; ++row) {
      if (this.rowBegin[row + 1] > this.rowBegin[row]) last = Math.max(last, this.finish[this.rowBegin[row + 1] - 1]);
    }
    return last;
  }

  #indexProgram() {
    const { columns } = this;
    this.waitBegin = runningTotal(columns["instruction.waits"]);
    this.signalBegin = runningTotal(columns["instruction.signals"]);
    const owners = (begin) => {
      const owner = new Uint32Array(begin.at(-1));
      for (let i = 0; i + 1 < begin.length; ++i) owner.fill(i, begin[i], begin[i + 1]);
      return owner;
    };
    this.waitOwner = owners(this.waitBegin);
    this.signalOwner = owners(this.signalBegin);
    const all = [columns["wait.counter"], columns["signal.counter"]];
    const numCounters = 1 + all.flatMap((list) => [...list]).reduce((a, b) => Math.max(a, b), 0);
    this.waitsOfCounter = groupBy(all[0], numCounters);
    this.signalsOfCounter = groupBy(all[1], numCounters);
    this.executions = new Map();
    const instructions = columns["instruction.op"].length;
    for (let e = 0; e < columns["execution.instruction"].length; ++e) {
      this.executions.set(columns["execution.pass"][e] * instructions + columns["execution.instruction"][e], e);
    }
    this.edgesTo = groupBy(columns["edge.to"], columns["execution.instruction"].length);
    this.edgesFrom = groupBy(columns["edge.from"], columns["execution.instruction"].length);
  }

  // The critical path's steps, window after window: each begins where the one before ends.
  #placePath() {
    const durations = this.columns["path.duration"];
    this.pathBegin = runningTotal(this.columns["window.steps"]);
    this.stepTime = new Float64Array(durations.length);
    this.windows.forEach((window, w) => {
      let time = window.begin;
      for (let i = this.pathBegin[w]; i < this.pathBegin[w + 1]; ++i) {
        this.stepTime[i] = time;
        time += durations[i];
      }
    });
  }

  // The host interpreter has no controller and no loader.
  hasRole(role) {
    return Array.from({ length: this.sms }, (_, sm) => this.rowOf(sm, role)).some((row) =>
      this.rowBegin[row + 1] > this.rowBegin[row]);
  }

  get slowestWindow() {
    const length = (window) => window.end - window.begin;
    return this.windows.reduce((worst, window, w) => (length(window) > length(this.windows[worst]) ? w : worst), 0);
  }

  rankOf(sm) {
    return Math.floor(sm / this.smsOfRank);
  }
  rankOfRow(row) {
    return this.rankOf(Math.floor(row / this.roles.length));
  }
  // An SM's number on its GPU. smName() also names the GPU if there are several.
  localSm(sm) {
    return sm % this.smsOfRank;
  }
  smName(sm) {
    return this.ranks > 1 ? `GPU ${this.rankOf(sm)} SM ${this.localSm(sm)}` : `SM ${sm}`;
  }
  // True if the two executions ran on different GPUs, so that a signal between them goes over the link.
  crossesLink(from, to) {
    const sm = this.columns["execution.sm"];
    return this.rankOf(sm[from]) !== this.rankOf(sm[to]);
  }

  rowOf(sm, role) {
    return sm * this.roles.length + role;
  }
  rowOfSlice(slice) {
    return firstThat(0, this.rowBegin.length - 1, (row) => this.rowBegin[row + 1] > slice);
  }
  // The first slice of a row that ends after `time`; the row's end if there is none.
  firstEndingAfter(row, time) {
    return firstThat(this.rowBegin[row], this.rowBegin[row + 1], (i) => this.finish[i] > time);
  }
  sliceAt(row, time) {
    const slice = this.firstEndingAfter(row, time);
    return slice < this.rowBegin[row + 1] && this.begin[slice] <= time ? slice : -1;
  }

  executionOf(instruction, pass) {
    return this.executions.get(pass * this.columns["instruction.op"].length + instruction) ?? -1;
  }
  // Every figure of an execution and its instruction, by name.
  describe(execution) {
    const { columns } = this;
    const instruction = columns["execution.instruction"][execution];
    const layer = columns["instruction.layer"][instruction];
    return {
      execution,
      instruction,
      op: this.head.ops[columns["instruction.op"][instruction]],
      layer: layer === kNoLayer ? -1 : layer,
      pass: columns["execution.pass"][execution],
      sm: columns["execution.sm"][execution],
      pc: columns["instruction.pc"][instruction],
      bytes: columns["execution.bytes"][execution],
      text: columns["instruction.text"][instruction],
    };
  }
  // "gate_up_silu, layer 3"
  nameOf(execution) {
    const { op, layer } = this.describe(execution);
    return layer < 0 ? op : `${op}, layer ${layer}`;
  }
  // When an event of head.events happened; -1 if it did not.
  eventTime(execution, event) {
    const offset = this.columns[`execution.${event}`][execution];
    return offset === 0 ? -1 : this.columns["execution.begin"][execution] + offset - 1;
  }

  waitsOf(instruction) {
    const waits = [];
    for (let w = this.waitBegin[instruction]; w < this.waitBegin[instruction + 1]; ++w) {
      waits.push({ counter: this.columns["wait.counter"][w], threshold: this.columns["wait.threshold"][w] });
    }
    return waits;
  }
  signalsOf(instruction) {
    const signals = [];
    for (let s = this.signalBegin[instruction]; s < this.signalBegin[instruction + 1]; ++s) {
      signals.push({ counter: this.columns["signal.counter"][s], increment: this.columns["signal.increment"][s] });
    }
    return signals;
  }
  // Executions of a pass that signal a counter, or wait for it.
  producersOf(counter, pass) {
    return this.#executionsOf(this.signalsOfCounter(counter), this.signalOwner, pass);
  }
  waitersOf(counter, pass) {
    return this.#executionsOf(this.waitsOfCounter(counter), this.waitOwner, pass);
  }
  #executionsOf(entries, owner, pass) {
    return [...entries].map((entry) => this.executionOf(owner[entry], pass)).filter((execution) => execution >= 0);
  }

  // The slice that stands for an execution: the longest in which it works, else its first.
  mainSlice(execution) {
    const slices = this.slicesOfExecution(execution);
    const compute = this.head.states.indexOf("compute");
    return slices.find((slice) => this.state[slice] === compute) ?? slices[0] ?? -1;
  }
}
