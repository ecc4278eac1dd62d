#include "vm/host/checked.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "vm/host/random_order.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/parts.h"

namespace serval {
namespace {

// One bit for each instruction of each pass: set if its effects are visible.
using Clock = std::vector<uint64_t>;
constexpr uint32_t kWordBits = 64;

bool knows(const Clock& clock, uint32_t id) {
  return (clock[id / kWordBits] >> (id % kWordBits) & 1) != 0;
}
void learn(Clock& clock, uint32_t id) {
  clock[id / kWordBits] |= uint64_t{1} << (id % kWordBits);
}
void join(Clock& clock, const Clock& other) {
  for (size_t w = 0; w < clock.size(); ++w) clock[w] |= other[w];
}

struct Increment {
  uint64_t total;  // the counter's value, this increment included
  uint32_t id;
};

struct Touch {
  Region region;
  uint32_t id;
};

// Columns that a read must find written.
struct Columns {
  uint64_t begin, end;
};

struct Sm {
  uint32_t begin = 0, next = 0, end = 0;
  uint32_t device = 0;
  uint32_t pass = 0;
  std::vector<uint32_t> flight;  // fetched, not yet run
  uint32_t pages = 0;            // held by the instructions in flight
};

struct Step {
  uint32_t sm;
  uint32_t slot;
};

class Checked {
 public:
  Checked(const Program& program, const CheckedIsa& isa, const CheckedOptions& options);
  std::optional<std::string> run();

 private:
  uint32_t id_of(uint32_t pass, uint32_t index) const { return pass * count_ + index; }
  uint64_t target(const Wait& w, uint32_t pass) const {
    return w.threshold + uint64_t{pass} * program_.counters[w.counter].increments_per_pass;
  }
  uint64_t value(uint32_t counter) const {
    return history_[counter].empty() ? 0 : history_[counter].back().total;
  }
  bool gate_open(uint32_t device, uint32_t pass) const {
    const uint32_t gate = program_.gate_of(device);
    return value(gate) >= uint64_t{pass} * program_.counters[gate].increments_per_pass;
  }
  bool check_records();
  void join_counter(uint32_t counter, uint64_t until, uint32_t device, Clock& clock) const;
  void fetch(Sm& sm);
  bool ready(const Sm& sm, uint32_t index) const;
  void collect_steps();
  void execute(Sm& sm, uint32_t slot);
  void touch(const Region& region, uint32_t pass, uint32_t index, const Clock& clock);
  void check_aliases(uint32_t id);
  void find_new_tokens();
  void check_reads(const Region& region, uint32_t pass, uint32_t index, const Clock& clock);
  void check_fresh(const Region& region, uint32_t pass, uint32_t index, const Clock& clock);
  std::string name(uint32_t id) const;
  std::string stuck() const;

  const Program& program_;
  const CheckedIsa& isa_;
  const CheckedOptions& options_;
  const uint32_t count_;
  RandomOrder random_;
  uint32_t sharing_;  // SMs that take records from a queue
  uint32_t depth_;    // limit of instructions in flight, for a queue
  static constexpr uint32_t kNoInstruction = 0xffffffff;
  uint32_t victim_ = kNoInstruction;
  std::vector<Clock> clocks_;  // for each instruction of each pass that has run: what was visible to it
  std::vector<std::vector<Increment>> history_;   // of each counter
  std::vector<std::vector<Touch>> touches_;       // of each tensor
  std::vector<std::vector<Columns>> new_tokens_;  // of each pass: the columns of its rows in the KV caches
  std::vector<Sm> sms_;
  std::vector<Step> steps_;
  std::vector<uint32_t> device_of_;  // of each instruction
  Footprint footprint_;
  std::optional<std::string> error_;
};

Checked::Checked(const Program& program, const CheckedIsa& isa, const CheckedOptions& options)
    : program_(program),
      isa_(isa),
      options_(options),
      count_(static_cast<uint32_t>(program.instructions.size())),
      random_(options.seed),
      clocks_(size_t{options.passes} * count_),
      history_(program.counters.size()),
      touches_(program.tensors.size()) {
  // A record in flight on a global queue may be in flight on any SM.
  sharing_ = program.queue_kind == QueueKind::kGlobal ? program.machine.sms : 1;
  constexpr uint64_t kMaxDepth = 4;
  depth_ = static_cast<uint32_t>(1 + random_.below(kMaxDepth * sharing_));
  if (options.seed % 2 == 1 && count_ > 0) victim_ = static_cast<uint32_t>(random_.below(count_));
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    sms_.push_back({program.queue_begin[q],
                    program.queue_begin[q],
                    program.queue_begin[q + 1],
                    program.device_of_queue(q),
                    0,
                    {},
                    0});
    device_of_.resize(program.queue_begin[q + 1], program.device_of_queue(q));
  }
  find_new_tokens();
}

// Without states, any token may be new.
void Checked::find_new_tokens() {
  constexpr uint64_t kEveryToken = ~uint64_t{0};
  new_tokens_.assign(options_.passes, {});
  if (options_.states.empty()) new_tokens_.assign(options_.passes, {{0, kEveryToken}});
  for (uint32_t pass = 0; pass < options_.states.size(); ++pass) {
    const StateView& state = options_.states[pass];
    for (const PassRow& row : std::span(state.rows, program_.limits.rows)) {
      if (row.active == 0) continue;
      const auto block = static_cast<uint64_t>(
          state.block_table[row.slot * uint64_t{state.blocks_per_sequence} + row.position / kKvBlockTokens]);
      const uint64_t token = block * kKvBlockTokens + row.position % kKvBlockTokens;
      new_tokens_[pass].push_back({token, token + 1});
    }
  }
}

// Footprints rely on operands that have been checked.
bool Checked::check_records() {
  for (uint32_t i = 0; i < count_; ++i) {
    const std::string wrong = isa_.check(program_, program_.instructions[i]);
    if (wrong.empty()) continue;
    error_ = fmt::format("instruction {}: {}", i, wrong);
    return false;
  }
  return true;
}

// Adds to `clock` the effects of the instructions whose increments came before the counter first reached
// `until`, as far as the counter's scope makes them visible on `device`.
void Checked::join_counter(uint32_t counter, uint64_t until, uint32_t device, Clock& clock) const {
  if (until == 0) return;
  const Counter& c = program_.counters[counter];
  for (const Increment& i : history_[counter]) {
    const bool on_device = device_of_[i.id % count_] == device && c.device == device;
    if (on_device || c.scope == CounterScope::kSystem) {
      join(clock, clocks_[i.id]);
      learn(clock, i.id);
    }
    if (i.total >= until) return;
  }
}

void Checked::fetch(Sm& sm) {
  if (sm.next == sm.end && sm.flight.empty() && sm.pass + 1 < options_.passes &&
      gate_open(sm.device, sm.pass + 1)) {
    ++sm.pass;
    sm.next = sm.begin;
  }
  while (sm.next < sm.end && sm.flight.size() < depth_) {
    const uint32_t pages = isa_.pages(program_.instructions[sm.next]);
    if (sm.pages + pages > uint64_t{program_.machine.pages_per_sm} * sharing_) return;
    sm.pages += pages;
    sm.flight.push_back(sm.next++);
  }
}

bool Checked::ready(const Sm& sm, uint32_t index) const {
  const auto waits = program_.waits_of(program_.instructions[index]);
  return std::all_of(waits.begin(), waits.end(),
                     [&](const Wait& w) { return value(w.counter) >= target(w, sm.pass); });
}

void Checked::collect_steps() {
  steps_.clear();
  bool only_victim = true;
  for (uint32_t s = 0; s < sms_.size(); ++s) {
    for (uint32_t slot = 0; slot < sms_[s].flight.size(); ++slot) {
      if (!ready(sms_[s], sms_[s].flight[slot])) continue;
      steps_.push_back({s, slot});
      only_victim = only_victim && sms_[s].flight[slot] == victim_;
    }
  }
  if (!only_victim) {
    std::erase_if(steps_, [&](const Step& step) { return sms_[step.sm].flight[step.slot] == victim_; });
  }
}

std::string Checked::name(uint32_t id) const {
  const uint32_t index = id % count_;
  const auto queue = std::upper_bound(program_.queue_begin.begin(), program_.queue_begin.end(), index);
  const auto q = static_cast<uint32_t>(queue - program_.queue_begin.begin() - 1);
  return fmt::format("{} pc {} ({}) of pass {}", sm_name(program_, q), index - program_.queue_begin[q],
                     isa_.name(program_.instructions[index].opcode), id / count_);
}

void Checked::touch(const Region& region, uint32_t pass, uint32_t index, const Clock& clock) {
  const uint32_t id = id_of(pass, index);
  for (const Touch& t : touches_[region.tensor.index]) {
    if (error_ || t.id == id || !t.region.box.overlaps(region.box) || are_apart(t.region, region)) continue;
    if (!writes(t.region.access) && !writes(region.access)) continue;
    if (knows(clock, t.id)) continue;
    error_ = fmt::format("race on {}: {} and {}", name_in(program_, program_.tensors[region.tensor.index]),
                         name(t.id), name(id));
  }
}

// An instruction must access a region that it writes by one operand only.
void Checked::check_aliases(uint32_t id) {
  for (const Region& w : footprint_) {
    if (!writes(w.access)) continue;
    const bool alias = std::any_of(footprint_.begin(), footprint_.end(), [&](const Region& r) {
      return r.tensor == w.tensor && r.operand != w.operand && r.box.overlaps(w.box);
    });
    if (!alias) continue;
    error_ = fmt::format("{} writes {}, which it names by another operand, too", name(id),
                         name_in(program_, program_.tensors[w.tensor.index]));
    return;
  }
}

// Checks reads of tensors that live within a pass, and of this pass's tokens in a cache.
void Checked::check_reads(const Region& region, uint32_t pass, uint32_t index, const Clock& clock) {
  const Tensor& tensor = program_.tensors[region.tensor.index];
  if (lives_within_pass(tensor)) check_fresh(region, pass, index, clock);
  if (tensor.kind != TensorKind::kKvCache) return;
  for (const Columns& columns : new_tokens_[pass]) {
    Region part = region;
    part.box.col_begin = std::max(part.box.col_begin, columns.begin);
    part.box.col_end = std::min(part.box.col_end, columns.end);
    if (!part.box.empty()) check_fresh(part, pass, index, clock);
  }
}

// Reports the read unless visible instructions of this pass wrote the whole region. Cuts their boxes out of
// it one by one.
void Checked::check_fresh(const Region& region, uint32_t pass, uint32_t index, const Clock& clock) {
  std::vector<Box> left = {region.box};
  for (const Touch& t : touches_[region.tensor.index]) {
    if (!certainly_writes(t.region) || t.id / count_ != pass || !knows(clock, t.id)) continue;
    std::vector<Box> rest;
    for (const Box& b : left) {
      if (!b.overlaps(t.region.box)) {
        rest.push_back(b);
        continue;
      }
      const uint64_t top = std::max(b.row_begin, t.region.box.row_begin),
                     bottom = std::min(b.row_end, t.region.box.row_end);
      const Box pieces[] = {{b.row_begin, top, b.col_begin, b.col_end},
                            {bottom, b.row_end, b.col_begin, b.col_end},
                            {top, bottom, b.col_begin, std::max(b.col_begin, t.region.box.col_begin)},
                            {top, bottom, std::min(b.col_end, t.region.box.col_end), b.col_end}};
      std::copy_if(std::begin(pieces), std::end(pieces), std::back_inserter(rest),
                   [](const Box& p) { return !p.empty(); });
    }
    left = std::move(rest);
  }
  if (!left.empty() && !error_) {
    error_ = fmt::format("stale read of {}: {}", name_in(program_, program_.tensors[region.tensor.index]),
                         name(id_of(pass, index)));
  }
}

void Checked::execute(Sm& sm, uint32_t slot) {
  const uint32_t index = sm.flight[slot];
  const Instruction& instruction = program_.instructions[index];
  const auto waits = program_.waits_of(instruction);
  sm.flight.erase(sm.flight.begin() + slot);
  sm.pages -= isa_.pages(instruction);

  Clock start((size_t{options_.passes} * count_ + kWordBits - 1) / kWordBits, 0);
  if (sm.pass > 0) {
    const uint32_t gate = program_.gate_of(sm.device);
    join_counter(gate, uint64_t{sm.pass} * program_.counters[gate].increments_per_pass, sm.device, start);
  }
  Clock all = start;
  for (const Wait& w : waits) join_counter(w.counter, target(w, sm.pass), sm.device, all);

  footprint_.clear();
  isa_.footprint(instruction, program_, options_.states.empty() ? nullptr : &options_.states[sm.pass],
                 footprint_);
  check_aliases(id_of(sm.pass, index));
  uint32_t written = 0;
  for (const Region& r : footprint_) written |= writes(r.access) ? 1U << r.operand : 0;
  for (const Region& r : footprint_) {
    const Tensor& tensor = program_.tensors[r.tensor.index];
    if (r.box.row_end > tensor.rows || r.box.col_end > tensor.cols) {
      error_ = fmt::format("{}: outside {}", name(id_of(sm.pass, index)), tensor.name);
      return;
    }
    if (is_immutable(tensor.kind) && tensor.device == sm.device) continue;
    // An operand that is only read may be read as soon as the waits that guard it are over.
    Clock clock = all;
    if ((written >> r.operand & 1) == 0) {
      clock = start;
      for (const Wait& w : waits) {
        if ((w.operand_mask >> r.operand & 1) != 0)
          join_counter(w.counter, target(w, sm.pass), sm.device, clock);
      }
    }
    if (reads(r.access) && tensor.device != sm.device) {
      error_ = fmt::format("{}: reads {}", name(id_of(sm.pass, index)), name_in(program_, tensor));
      return;
    }
    touch(r, sm.pass, index, clock);
    if (reads(r.access)) check_reads(r, sm.pass, index, clock);
  }
  const uint32_t id = id_of(sm.pass, index);
  for (const Region& r : footprint_) {
    if (!is_immutable(program_.tensors[r.tensor.index].kind)) touches_[r.tensor.index].push_back({r, id});
  }
  clocks_[id] = std::move(all);
  for (const Signal& s : program_.signals_of(instruction)) {
    history_[s.counter].push_back({value(s.counter) + s.increment, id});
  }
}

std::string Checked::stuck() const {
  for (const Sm& sm : sms_) {
    if (!sm.flight.empty()) return name(id_of(sm.pass, sm.flight.front())) + " never starts";
    if (sm.next < sm.end) return name(id_of(sm.pass, sm.next)) + " never gets its pages";
  }
  return "the gate never opens";
}

std::optional<std::string> Checked::run() {
  if (!check_records()) return error_;
  const size_t all = size_t{options_.passes} * count_;
  for (size_t done = 0; done < all && !error_; ++done) {
    for (Sm& sm : sms_) fetch(sm);
    collect_steps();
    if (steps_.empty()) {
      error_ = stuck();
      break;
    }
    const Step step = steps_[random_.below(steps_.size())];
    execute(sms_[step.sm], step.slot);
  }
  if (error_) *error_ += fmt::format(" (interleaving {})", options_.seed);
  return error_;
}

}  // namespace

std::optional<std::string> run_checked(const Program& program, const CheckedIsa& isa,
                                       const CheckedOptions& options) {
  return Checked(program, isa, options).run();
}

}  // namespace serval
