#include "scheduler/validate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <unordered_set>
#include <utility>

#include "instructions/isa.h"
#include "scheduler/access_log.h"
#include "scheduler/happens_before.h"
#include "scheduler/pass_values.h"
#include "scheduler/report.h"
#include "vm/base/error.h"
#include "vm/state/names.h"
#include "vm/state/parts.h"

namespace serval {
namespace {

std::string format_region(const Program& program, TensorId tensor, const Box& box) {
  return fmt::format("{}[{}:{}, {}:{}]", name_in(program, program.tensors[tensor.index]), box.row_begin,
                     box.row_end, box.col_begin, box.col_end);
}

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program) {}
  std::optional<Violation> run();

 private:
  bool check_isa();
  bool check_state_parts();
  bool check_records();
  bool check_devices();
  bool check_device(uint32_t index, uint32_t device);
  bool check_scopes();
  bool check_scopes_of(uint32_t index, uint32_t device);
  bool check_block_scopes();
  bool check_pages();
  bool check_progress(const HappensBefore& hb);
  bool check_accesses(const HappensBefore& hb);
  bool check_aliases(uint32_t index);
  bool check_access(const HappensBefore& hb, uint32_t index, const Region& region, bool also_written);
  void record(uint32_t index, const Region& region);
  bool check_conflicts(const HappensBefore& hb, uint32_t index, const Region& region, bool also_written);
  bool already_checked(const HappensBefore& hb, uint32_t index, const Region& region);
  bool are_ordered_readers(const HappensBefore& hb, uint32_t index, const AccessLog::Nodes& met) const;
  void keep_ordered_readers(const HappensBefore& hb, uint32_t index, const AccessLog::Nodes& met);
  bool check_values(const HappensBefore& hb, uint32_t index);
  bool fail_stale(const HappensBefore& hb, uint32_t index, Region region);
  bool fail_mixed_values(uint32_t index, const NoValue& none);
  bool check_decision(const HappensBefore& hb);
  bool copies_decision(const HappensBefore& hb, uint32_t index, uint32_t decider, TensorId control);
  bool fail_unordered(const HappensBefore& hb, uint32_t first, uint32_t second, const Region& region);
  std::optional<uint32_t> later_writer(const HappensBefore& hb, uint32_t index, const Region& part);
  bool check_gate(const HappensBefore& hb);
  bool fail(Rule rule, std::vector<uint32_t> instructions, const std::string& message);
  std::string explain_order(const HappensBefore& hb, uint32_t first, const Region& region,
                            uint32_t second) const;
  const Wait* wait_for(uint32_t instruction, uint32_t producer) const;
  std::string describe_wait(uint32_t instruction, const Wait& wait) const;

  const Program& program_;
  AccessLog log_{program_.tensors.size()};
  ValueTable value_table_;
  PassValues values_{program_.tensors, value_table_};
  // For each tensor: read-only accesses checked since its last write, each with the events that guard it.
  // Instructions of one row tile read the same regions after the same events, so one check serves all of
  // them.
  struct CheckedRead {
    Box box;
    std::vector<uint32_t> events;
    friend bool operator==(const CheckedRead&, const CheckedRead&) = default;
  };
  struct CheckedReadHash {
    size_t operator()(const CheckedRead& read) const;
  };
  struct Reads {
    uint64_t writes = 0;
    std::unordered_set<CheckedRead, CheckedReadHash> checked = {};
    const CheckedRead* latest = nullptr;  // mostly the next instruction's, too
  };
  std::vector<Reads> reads_{program_.tensors.size()};
  // The instruction that last wrote a tensor, and the operand by which it did.
  struct LastWrite {
    uint32_t instruction = 0xffffffff;
    uint8_t operand = 0;
  };
  std::vector<LastWrite> last_writes_{program_.tensors.size()};
  std::vector<uint32_t> events_;
  // Readers of a box that were found to precede every write after a set of events. Hundreds of instructions
  // read a box, and then each of a tile's instructions writes a part of it.
  struct OrderedReaders {
    uint32_t set, readers;  // HappensBefore::event_set_of(), AccessLog::Nodes::readers
    size_t nodes;           // number of readers; 0: unused
    friend bool operator==(const OrderedReaders&, const OrderedReaders&) = default;
  };
  std::array<OrderedReaders, 32> ordered_readers_ = {};  // a ring
  size_t oldest_ordered_readers_ = 0;
  std::array<std::vector<uint32_t>, kMaxDevices> control_writers_;  // instructions, by device
  std::vector<bool> pushes_;  // of each instruction, if there are several devices: it pushes to another one
  Footprint footprint_;
  std::optional<Violation> found_;
};

bool Validator::fail(Rule rule, std::vector<uint32_t> instructions, const std::string& message) {
  std::string explanation;
  for (const uint32_t i : instructions) {
    explanation += where(program_, i) + ": " + format_instruction(program_, program_.instructions[i]) + "\n";
  }
  found_ =
      Violation{rule, fmt::format("{}: {}", name_of(rule), message), std::move(instructions), explanation};
  return false;
}

std::optional<Violation> Validator::run() {
  try {
    check_structure(program_);
  } catch (const Error& e) {
    fail(Rule::kStructure, {}, e.what());
    return found_;
  }
  if (!check_isa() || !check_state_parts() || !check_records() || !check_devices() || !check_scopes() ||
      !check_pages())
    return found_;
  const HappensBefore hb(program_);
  if (check_progress(hb) && check_accesses(hb) && check_gate(hb)) check_decision(hb);
  return found_;
}

// A program from a file may have been compiled for other opcodes. One made in memory need not name its
// instruction set.
bool Validator::check_isa() {
  const auto isa = program_.metadata.find("isa");
  if (isa == program_.metadata.end() || isa->second == isa_fingerprint()) return true;
  return fail(
      Rule::kStructure, {},
      fmt::format("compiled for instruction set {}, this build has {}", isa->second, isa_fingerprint()));
}

// The interpreters know only these parts.
bool Validator::check_state_parts() {
  for (const Tensor& t : program_.tensors) {
    if (t.kind != TensorKind::kState || state_part(t.name, program_.limits)) continue;
    return fail(Rule::kStructure, {}, fmt::format("tensor '{}': the state has no such part", t.name));
  }
  return true;
}

bool Validator::check_records() {
  for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
    const std::string wrong = check_instruction(program_, program_.instructions[i]);
    if (!wrong.empty()) {
      found_ =
          Violation{Rule::kOperands, fmt::format("operands: {}: {}", where(program_, i), wrong), {i}, {}};
      return false;
    }
  }
  return true;
}

bool Validator::check_devices() {
  if (program_.num_devices == 1) return true;
  pushes_.resize(program_.instructions.size(), false);
  for (uint32_t q = 0; q < program_.num_queues(); ++q) {
    for (uint32_t i = program_.queue_begin[q]; i < program_.queue_begin[q + 1]; ++i) {
      if (!check_device(i, program_.device_of_queue(q))) return false;
    }
  }
  return true;
}

// An instruction names tensors of the device that it runs on, except those that it pushes to, which it only
// writes.
bool Validator::check_device(uint32_t index, uint32_t device) {
  const Instruction& instruction = program_.instructions[index];
  if (const uint32_t named = device_of(program_.tensors, instruction); named != device) {
    return fail(Rule::kDevice, {index},
                fmt::format("{}: runs on device {}, but its operands are on device {}",
                            where(program_, index), device, named));
  }
  footprint_.clear();
  op_info(instruction.opcode).footprint(instruction, program_, nullptr, footprint_);
  for (const Region& r : footprint_) {
    if (program_.tensors[r.tensor.index].device == device) continue;
    pushes_[index] = true;
    if (!reads(r.access)) continue;
    return fail(Rule::kDevice, {index},
                fmt::format("{}: reads {}, which is on another device", where(program_, index),
                            format_region(program_, r.tensor, r.box)));
  }
  return true;
}

bool Validator::check_scopes() {
  for (uint32_t q = 0; q < program_.num_queues() && program_.num_devices > 1; ++q) {
    for (uint32_t i = program_.queue_begin[q]; i < program_.queue_begin[q + 1]; ++i) {
      if (!check_scopes_of(i, program_.device_of_queue(q))) return false;
    }
  }
  return check_block_scopes();
}

// A counter is polled on its own device. An instruction's own signals release what it pushes, to all devices,
// so all of its counters must have system scope if it pushes. A counter on another device must have it in any
// case.
bool Validator::check_scopes_of(uint32_t index, uint32_t device) {
  for (const Wait& w : program_.waits_of(program_.instructions[index])) {
    if (program_.counters[w.counter].device == device) continue;
    return fail(Rule::kScope, {index},
                fmt::format("{}: waits for counter {}, which is on device {}", where(program_, index),
                            w.counter, program_.counters[w.counter].device));
  }
  for (const Signal& s : program_.signals_of(program_.instructions[index])) {
    const Counter& counter = program_.counters[s.counter];
    if (counter.scope == CounterScope::kSystem || (counter.device == device && !pushes_[index])) continue;
    return fail(
        Rule::kScope, {index},
        fmt::format("{}: counter {} is not of system scope, but {}", where(program_, index), s.counter,
                    pushes_[index] ? "releases what is pushed to another device" : "is on another device"));
  }
  return true;
}

// Only one SM sees a counter of block scope.
bool Validator::check_block_scopes() {
  if (program_.queue_kind == QueueKind::kGlobal) {
    for (uint32_t c = 0; c < program_.counters.size(); ++c) {
      if (program_.counters[c].scope != CounterScope::kBlock) continue;
      return fail(Rule::kScope, {},
                  fmt::format("counter {}: block scope, but any SM may run any instruction", c));
    }
    return true;
  }
  constexpr uint32_t kNoQueue = 0xffffffff;
  std::vector<uint32_t> user(program_.counters.size(), kNoQueue);
  const auto use = [&](uint32_t counter, uint32_t q, uint32_t index) {
    const uint32_t first = std::exchange(user[counter], q);
    if (program_.counters[counter].scope != CounterScope::kBlock || first == kNoQueue || first == q)
      return true;
    return fail(Rule::kScope, {index},
                fmt::format("{}: counter {}: block scope, but SM {} uses it, too", where(program_, index),
                            counter, first));
  };
  for (uint32_t q = 0; q < program_.num_queues(); ++q) {
    for (uint32_t i = program_.queue_begin[q]; i < program_.queue_begin[q + 1]; ++i) {
      for (const Wait& w : program_.waits_of(program_.instructions[i])) {
        if (!use(w.counter, q, i)) return false;
      }
      for (const Signal& s : program_.signals_of(program_.instructions[i])) {
        if (!use(s.counter, q, i)) return false;
      }
    }
  }
  for (uint32_t device = 0; device < program_.num_devices && program_.machine.sms > 1; ++device) {
    const uint32_t gate = program_.gate_of(device);
    if (program_.counters[gate].scope != CounterScope::kBlock) continue;
    return fail(Rule::kScope, {},
                fmt::format("counter {}: block scope, but every SM waits at the gate", gate));
  }
  return true;
}

bool Validator::check_pages() {
  for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
    const PageNeed need = op_info(program_.instructions[i].opcode).pages(program_.instructions[i]);
    if (need.pinned + need.streaming <= program_.machine.pages_per_sm) continue;
    return fail(Rule::kPages, {i},
                fmt::format("{}: needs {} pinned and {} streaming pages, the machine has {}",
                            where(program_, i), need.pinned, need.streaming, program_.machine.pages_per_sm));
  }
  return true;
}

bool Validator::check_progress(const HappensBefore& hb) {
  if (!hb.stuck()) return true;
  const Stuck& s = *hb.stuck();
  return fail(Rule::kProgress, {s.instruction},
              fmt::format("{}: waits for counter {} to reach {}, but it stops at {}",
                          where(program_, s.instruction), s.counter, s.needs, s.has));
}

// Visits the instructions in an order in which they can run. The log holds the last accesses to each region.
bool Validator::check_accesses(const HappensBefore& hb) {
  for (const uint32_t i : hb.order()) {
    footprint_.clear();
    op_info(program_.instructions[i].opcode)
        .footprint(program_.instructions[i], program_, nullptr, footprint_);
    uint32_t written = 0;
    for (const Region& r : footprint_) written |= writes(r.access) ? 1U << r.operand : 0;
    for (const Region& r : footprint_) {
      if (!check_access(hb, i, r, (written >> r.operand & 1) != 0)) return false;
    }
    if (!check_aliases(i) || !check_values(hb, i)) return false;
    for (const Region& r : footprint_) record(i, r);
  }
  return true;
}

// An instruction must not name a tensor that it writes by another operand, too, whichever parts they touch:
// nothing orders the accesses of one instruction. An operation that updates a tensor has one operand for it.
bool Validator::check_aliases(uint32_t index) {
  const Instruction& instruction = program_.instructions[index];
  const std::vector<FieldInfo>& fields = op_info(instruction.opcode).fields;
  for (const Region& r : footprint_) {
    if (writes(r.access)) last_writes_[r.tensor.index] = {index, r.operand};
  }
  const auto fail_alias = [&](uint32_t tensor, uint8_t operand) {
    const auto [first, second] = std::minmax(operand, last_writes_[tensor].operand);
    return fail(
        Rule::kOperands, {index},
        fmt::format("{}: {} and {} both name {}, which the instruction writes", where(program_, index),
                    fields[first].name, fields[second].name, name_in(program_, program_.tensors[tensor])));
  };
  for (const Region& r : footprint_) {
    const LastWrite& writer = last_writes_[r.tensor.index];
    if (writer.instruction == index && writer.operand != r.operand)
      return fail_alias(r.tensor.index, r.operand);
  }
  for (size_t operand = 0; operand < fields.size(); ++operand) {
    if (!names_tensors(fields[operand].kind)) break;  // tensors come first
    if (fields[operand].kind == FieldKind::kPeers) continue;
    uint32_t tensor = 0;
    std::memcpy(&tensor, instruction.operands.data() + fields[operand].offset, sizeof tensor);
    const LastWrite& writer = last_writes_[tensor];
    if (writer.instruction == index && writer.operand != operand)
      return fail_alias(tensor, static_cast<uint8_t>(operand));
  }
  return true;
}

bool Validator::check_access(const HappensBefore& hb, uint32_t index, const Region& region,
                             bool also_written) {
  const Tensor& tensor = program_.tensors[region.tensor.index];
  if (region.box.row_end > tensor.rows || region.box.col_end > tensor.cols) {
    return fail(Rule::kOperands, {index},
                fmt::format("{}: {} is outside [{}, {}]", where(program_, index),
                            format_region(program_, region.tensor, region.box), tensor.rows, tensor.cols));
  }
  if (is_immutable(tensor.kind)) return true;
  return check_conflicts(hb, index, region, also_written);
}

void Validator::record(uint32_t index, const Region& region) {
  const Tensor& tensor = program_.tensors[region.tensor.index];
  if (is_immutable(tensor.kind)) return;
  log_.record(region, index);
  if (!writes(region.access)) return;
  if (tensor.kind == TensorKind::kState && tensor.name == state_tensor::kControl)
    control_writers_[tensor.device].push_back(index);
}

// Reading may begin when the waits that guard the operand are over; writing, when all are.
bool Validator::check_conflicts(const HappensBefore& hb, uint32_t index, const Region& region,
                                bool also_written) {
  if (!also_written && already_checked(hb, index, region)) return true;
  const std::optional<uint8_t> operand = also_written ? std::nullopt : std::optional(region.operand);
  constexpr uint32_t kNone = 0xffffffff;
  uint32_t found_before = kNone;
  const auto is_before = [&](uint32_t earlier) {
    const uint32_t first_events = hb.first_events_of(earlier);
    if (first_events == found_before) return true;
    if (!hb.before(earlier, index, operand)) return false;
    found_before = first_events;
    return true;
  };
  bool ordered = true;
  log_.for_conflicts(region, [&](const AccessLog::Nodes& met) {
    if (!ordered || (also_written && are_ordered_readers(hb, index, met))) return;
    const auto wrong = std::ranges::find_if_not(met.nodes, is_before);
    if (wrong != met.nodes.end()) {
      ordered = fail_unordered(hb, *wrong, index, region);
    } else if (also_written) {
      keep_ordered_readers(hb, index, met);
    }
  });
  return ordered;
}

// True if these readers were found to precede every write after the instruction's set of events.
bool Validator::are_ordered_readers(const HappensBefore& hb, uint32_t index,
                                    const AccessLog::Nodes& met) const {
  const OrderedReaders asked{hb.event_set_of(index), met.readers, met.nodes.size()};
  return met.readers != AccessLog::kNotReaders &&
         std::ranges::find(ordered_readers_, asked) != ordered_readers_.end();
}

void Validator::keep_ordered_readers(const HappensBefore& hb, uint32_t index, const AccessLog::Nodes& met) {
  if (met.readers == AccessLog::kNotReaders) return;
  ordered_readers_[oldest_ordered_readers_++ % ordered_readers_.size()] = {hb.event_set_of(index),
                                                                           met.readers, met.nodes.size()};
}

// True if an equal read was checked since the tensor's last write: that one was in order, so this one is.
// Otherwise notes this read.
bool Validator::already_checked(const HappensBefore& hb, uint32_t index, const Region& region) {
  Reads& reads = reads_[region.tensor.index];
  if (std::exchange(reads.writes, log_.writes_of(region.tensor)) != reads.writes) {
    reads.checked.clear();
    reads.latest = nullptr;
  }
  hb.guard_events(index, region.operand, events_);
  if (reads.latest != nullptr && reads.latest->box == region.box && reads.latest->events == events_)
    return true;
  const auto [read, is_new] = reads.checked.insert({region.box, events_});
  reads.latest = &*read;
  return !is_new;
}

size_t Validator::CheckedReadHash::operator()(const CheckedRead& read) const {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t h = 0;
  for (const uint64_t part : {read.box.row_begin, read.box.row_end, read.box.col_begin, read.box.col_end})
    h = (h ^ part) * kFactor;
  for (const uint32_t event : read.events) h = (h ^ event) * kFactor;
  constexpr int kHalf = 32;
  return static_cast<size_t>(h ^ h >> kHalf);
}

bool Validator::fail_unordered(const HappensBefore& hb, uint32_t first, uint32_t second,
                               const Region& region) {
  fail(Rule::kRace, {first, second},
       fmt::format("{} and {} both touch {}, at least one writes, and nothing orders them",
                   where(program_, first), where(program_, second),
                   format_region(program_, region.tensor, region.box)));
  found_->explanation += explain_order(hb, first, region, second);
  return false;
}

// The wait of `instruction` for a counter that `producer` signals; null if there is none.
const Wait* Validator::wait_for(uint32_t instruction, uint32_t producer) const {
  const auto signals = program_.signals_of(program_.instructions[producer]);
  for (const Wait& w : program_.waits_of(program_.instructions[instruction])) {
    if (std::any_of(signals.begin(), signals.end(), [&](const Signal& s) { return s.counter == w.counter; }))
      return &w;
  }
  return nullptr;
}

std::string Validator::describe_wait(uint32_t instruction, const Wait& wait) const {
  return fmt::format("{} waits for counter {} to reach {} of {}", where(program_, instruction), wait.counter,
                     wait.threshold, program_.counters[wait.counter].increments_per_pass);
}

// Explains which edge is missing. Searches backwards from `second`, through the instructions that it
// certainly waits for, for the nearest one that waits for a counter of `first`, but not for enough
// increments. If there is none, `second` lacks a wait.
std::string Validator::explain_order(const HappensBefore& hb, uint32_t first, const Region& region,
                                     uint32_t second) const {
  const auto signals = program_.signals_of(program_.instructions[first]);
  if (signals.empty()) {
    return fmt::format("missing: {} signals no counter that {} could wait for\n", where(program_, first),
                       where(program_, second));
  }
  if (hb.before(first, second, std::nullopt)) {
    return fmt::format("missing: the waits that order them do not guard operand {} of {}\n", region.operand,
                       where(program_, second));
  }
  constexpr uint32_t kUnseen = 0xffffffff;
  std::vector<uint32_t> next(program_.instructions.size(), kUnseen);  // on a path to `second`
  std::vector<uint32_t> reached = {second};
  // Per counter: number of its certain producers followed so far.
  std::vector<size_t> followed(program_.counters.size(), 0);
  next[second] = second;
  for (size_t r = 0; r < reached.size(); ++r) {
    const uint32_t at = reached[r];
    if (const Wait* wait = wait_for(at, first)) {
      std::string out = fmt::format("missing: {} -> counter {} -> {}", where(program_, first), wait->counter,
                                    where(program_, at));
      for (uint32_t i = at; i != second; i = next[i]) out += " -> " + where(program_, next[i]);
      return out + fmt::format("\n{}, which other signals alone can reach\n", describe_wait(at, *wait));
    }
    const auto waits = program_.waits_of(program_.instructions[at]);
    for (size_t w = 0; w < waits.size(); ++w) {
      const auto certain = hb.certain_before(at, w);
      size_t& seen = followed[waits[w].counter];
      for (const uint32_t before : certain.subspan(std::min(seen, certain.size()))) {
        if (std::exchange(next[before], next[before] == kUnseen ? at : next[before]) == kUnseen)
          reached.push_back(before);
      }
      seen = std::max(seen, certain.size());
    }
  }
  const Signal& s = signals.front();
  return fmt::format("missing: {} -> counter {} -> {}\nno wait leads from one to the other\n",
                     where(program_, first), s.counter, where(program_, second));
}

// Finds an instruction that may write the part but is visited later, because nothing makes it run first.
std::optional<uint32_t> Validator::later_writer(const HappensBefore& hb, uint32_t index, const Region& part) {
  Footprint footprint;
  const auto rest = std::find(hb.order().begin(), hb.order().end(), index);
  for (const uint32_t i : std::span(rest, hb.order().end()).subspan(1)) {
    footprint.clear();
    op_info(program_.instructions[i].opcode)
        .footprint(program_.instructions[i], program_, nullptr, footprint);
    for (const Region& r : footprint) {
      const bool writes_it = writes(r.access) && r.tensor == part.tensor && r.box.overlaps(part.box);
      if (writes_it && !hb.before(index, i, std::nullopt)) return i;
    }
  }
  return std::nullopt;
}

// Data of the pass that an instruction reads must have been written before, all of it by one computation.
bool Validator::check_values(const HappensBefore& hb, uint32_t index) {
  const std::optional<NoValue> none = values_.visit(index, program_.instructions[index], footprint_);
  if (!none) return true;
  switch (none->why) {
    case NoValue::Why::kNotWritten:
      return fail_stale(hb, index, none->region);
    case NoValue::Why::kMixedValues:
      return fail_mixed_values(index, *none);
    case NoValue::Why::kWrittenTwice:
      break;
  }
  return fail(
      Rule::kValue, {none->one, index},
      fmt::format("{} and {} both write this pass's tokens to {}", where(program_, none->one),
                  where(program_, index), format_region(program_, none->region.tensor, none->region.box)));
}

bool Validator::fail_stale(const HappensBefore& hb, uint32_t index, Region missing) {
  Region of_logits = missing;
  of_logits.part = Part::kLogitsRows;
  const bool logits_written = !values_.contents().uncovered(of_logits);
  missing.box = values_.contents().uncovered(missing).value_or(missing.box);
  if (const auto writer = later_writer(hb, index, missing))
    return fail_unordered(hb, *writer, index, missing);
  const std::string read = fmt::format("{}: reads {}", where(program_, index),
                                       format_region(program_, missing.tensor, missing.box));
  if (missing.part == Part::kNewTokens)
    return fail(Rule::kStale, {index}, read + ", but no instruction has written this pass's tokens there");
  if (missing.part == Part::kActiveRows && logits_written) {
    return fail(Rule::kStale, {index}, read + ", but this pass has written only rows that want logits");
  }
  return fail(Rule::kStale, {index}, read + ", but this pass has not written all of it");
}

bool Validator::fail_mixed_values(uint32_t index, const NoValue& none) {
  const std::string read = fmt::format("{}: reads {}", where(program_, index),
                                       format_region(program_, none.region.tensor, none.region.box));
  if (none.one == NoValue::kNone || none.other == NoValue::kNone) {
    return fail(Rule::kValue, {index}, read + ", but this pass has written only a part of it");
  }
  const Instruction &one = program_.instructions[none.one], &other = program_.instructions[none.other];
  std::string how = "different operations";
  if (one.opcode == other.opcode) {
    const char* const operand = first_difference(program_.tensors, one, program_.tensors, other);
    how = operand == nullptr ? "the same operation on inputs that were computed differently"
                             : fmt::format("another {}", operand);
  }
  return fail(Rule::kValue, {index, none.one, none.other},
              fmt::format("{}, which {} and {} have written with {}", read, where(program_, none.one),
                          where(program_, none.other), how));
}

bool Validator::check_gate(const HappensBefore& hb) {
  for (uint32_t device = 0; device < program_.num_devices; ++device) {
    for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
      if (hb.before_gate(i, device)) continue;
      return fail(Rule::kGate, {i},
                  fmt::format("{}: may still run when counter {} opens the gate to the next pass",
                              where(program_, i), program_.gate_of(device)));
    }
  }
  return true;
}

// Exactly one instruction a pass counts rows and passes and decides whether the launch ends. Device 0
// decides, and the decision is copied to the other devices. A program without the pass's control cannot be
// bound, so it needs no check.
bool Validator::check_decision(const HappensBefore& hb) {
  const std::optional<TensorId> control = program_.find_tensor(state_tensor::kControl);
  if (!control) return true;
  for (uint32_t device = 0; device < program_.num_devices; ++device) {
    const std::vector<uint32_t>& writers = control_writers_[device];
    if (writers.empty()) {
      const std::string on = program_.num_devices > 1 ? fmt::format(" of device {}", device) : "";
      return fail(
          Rule::kGate, {},
          fmt::format("no instruction writes {}{}, so no launch would end", state_tensor::kControl, on));
    }
    if (writers.size() > 1) {
      return fail(Rule::kGate, {writers[0], writers[1]},
                  fmt::format("{} and {} both decide whether another pass follows",
                              where(program_, writers[0]), where(program_, writers[1])));
    }
    if (!copies_decision(hb, writers[0], control_writers_[0][0], *control)) {
      return fail(Rule::kGate, {control_writers_[0][0], writers[0]},
                  fmt::format("{}: does not copy to device {} what {} decides in this pass",
                              where(program_, writers[0]), device, where(program_, control_writers_[0][0])));
    }
  }
  return true;
}

// True if the instruction copies what `decider` has written to `control` in this pass.
bool Validator::copies_decision(const HappensBefore& hb, uint32_t index, uint32_t decider, TensorId control) {
  if (index == decider) return true;
  footprint_.clear();
  op_info(program_.instructions[index].opcode)
      .footprint(program_.instructions[index], program_, nullptr, footprint_);
  return std::any_of(footprint_.begin(), footprint_.end(), [&](const Region& r) {
    return r.tensor == control && r.access == Access::kRead && hb.before(decider, index, r.operand);
  });
}

}  // namespace

const char* name_of(Rule rule) {
  switch (rule) {
    case Rule::kStructure:
      return "structure";
    case Rule::kOperands:
      return "operands";
    case Rule::kDevice:
      return "device";
    case Rule::kScope:
      return "scope";
    case Rule::kProgress:
      return "progress";
    case Rule::kPages:
      return "pages";
    case Rule::kRace:
      return "race";
    case Rule::kStale:
      return "stale";
    case Rule::kValue:
      return "value";
    case Rule::kGate:
      return "gate";
    case Rule::kModel:
      return "model";
  }
  return "?";
}

std::optional<Violation> validate(const Program& program) {
  return Validator(program).run();
}

void require_valid(const Program& program) {
  const std::optional<Violation> violation = validate(program);
  if (violation) throw Error(ErrorKind::kRuntime, "program: " + violation->message);
}

}  // namespace serval
