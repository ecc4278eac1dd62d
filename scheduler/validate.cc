#include "scheduler/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "instructions/isa.h"
#include "scheduler/access_log.h"
#include "scheduler/boxes.h"
#include "scheduler/happens_before.h"
#include "scheduler/report.h"
#include "vm/error.h"

namespace serval {
namespace {

std::string where(const Program& program, uint32_t index) {
  const auto queue = std::upper_bound(program.queue_begin.begin(), program.queue_begin.end(), index);
  const auto q = static_cast<uint32_t>(queue - program.queue_begin.begin() - 1);
  const Instruction& i = program.instructions[index];
  std::string out = program.queue_kind == QueueKind::kGlobal ? "queue" : fmt::format("SM {}", q);
  out += fmt::format(" pc {} ({}", index - program.queue_begin[q], op_name(i.opcode));
  if (i.tag != kNoTag) out += fmt::format(" of layer {}", i.tag);
  return out + ")";
}

std::string format_region(const Program& program, TensorId tensor, const Box& box) {
  return fmt::format("{}[{}:{}, {}:{}]", program.tensors[tensor.index].name, box.row_begin, box.row_end,
                     box.col_begin, box.col_end);
}

Box intersection(const Box& a, const Box& b) {
  return {std::max(a.row_begin, b.row_begin), std::min(a.row_end, b.row_end),
          std::max(a.col_begin, b.col_begin), std::min(a.col_end, b.col_end)};
}

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program) {}
  std::optional<Violation> run();

 private:
  bool check_isa();
  bool check_records();
  bool check_scopes();
  bool check_pages();
  bool check_progress(const HappensBefore& hb);
  bool check_accesses(const HappensBefore& hb);
  bool check_conflicts(const HappensBefore& hb, uint32_t index, const Region& region, bool also_written);
  bool check_fresh(uint32_t index, const Region& region);
  bool check_gate(const HappensBefore& hb);
  bool fail(Rule rule, std::vector<uint32_t> instructions, const std::string& message);
  std::string explain_order(uint32_t first, uint32_t second) const;

  const Program& program_;
  AccessLog log_{program_.tensors.size()};
  Footprint footprint_;
  std::vector<Box> uncovered_;
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
  if (!check_isa() || !check_records() || !check_scopes() || !check_pages()) return found_;
  const HappensBefore hb(program_);
  if (check_progress(hb) && check_accesses(hb)) check_gate(hb);
  return found_;
}

// A program from a file may have been compiled for other opcodes; one made in memory need not say.
bool Validator::check_isa() {
  const auto isa = program_.metadata.find("isa");
  if (isa == program_.metadata.end() || isa->second == isa_fingerprint()) return true;
  return fail(
      Rule::kStructure, {},
      fmt::format("compiled for instruction set {}, this build has {}", isa->second, isa_fingerprint()));
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

// A counter of block scope is seen by one SM only, one of GPU scope by one device.
bool Validator::check_scopes() {
  if (program_.queue_kind == QueueKind::kGlobal) {
    for (uint32_t c = 0; c < program_.counters.size(); ++c) {
      if (program_.counters[c].scope != CounterScope::kBlock) continue;
      return fail(Rule::kScope, {},
                  fmt::format("counter {}: block scope, but any SM may run any instruction", c));
    }
    return true;
  }
  constexpr uint32_t kNobody = 0xffffffff;
  std::vector<uint32_t> user(program_.counters.size(), kNobody);
  const auto use = [&](uint32_t counter, uint32_t q, uint32_t index) {
    const uint32_t first = std::exchange(user[counter], q);
    if (program_.counters[counter].scope != CounterScope::kBlock || first == kNobody || first == q)
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
  if (program_.counters[program_.gate_counter].scope == CounterScope::kBlock && program_.machine.sms > 1) {
    return fail(
        Rule::kScope, {},
        fmt::format("counter {}: block scope, but every SM waits at the gate", program_.gate_counter));
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

// Visits the instructions in an order in which they can run; the log holds whoever touched each region last.
bool Validator::check_accesses(const HappensBefore& hb) {
  for (const uint32_t i : hb.order()) {
    footprint_.clear();
    op_info(program_.instructions[i].opcode).footprint(program_.instructions[i], nullptr, footprint_);
    uint32_t written = 0;
    for (const Region& r : footprint_) written |= writes(r.access) ? 1U << r.operand : 0;
    for (const Region& r : footprint_) {
      const Tensor& tensor = program_.tensors[r.tensor.index];
      if (r.box.row_end > tensor.rows || r.box.col_end > tensor.cols) {
        return fail(Rule::kOperands, {i},
                    fmt::format("{}: {} is outside [{}, {}]", where(program_, i),
                                format_region(program_, r.tensor, r.box), tensor.rows, tensor.cols));
      }
      if (is_immutable(tensor.kind)) continue;
      if (!check_conflicts(hb, i, r, (written >> r.operand & 1) != 0)) return false;
      if (tensor.kind == TensorKind::kActivation && reads(r.access) && !check_fresh(i, r)) return false;
    }
    for (const Region& r : footprint_) {
      if (!is_immutable(program_.tensors[r.tensor.index].kind)) log_.record(r, i);
    }
  }
  return true;
}

// Reading may begin when the waits that guard the operand are over; writing, when all are.
bool Validator::check_conflicts(const HappensBefore& hb, uint32_t index, const Region& region,
                                bool also_written) {
  const std::optional<uint8_t> operand = also_written ? std::nullopt : std::optional(region.operand);
  bool ordered = true;
  log_.for_conflicts(region, [&](uint32_t earlier) {
    if (!ordered || earlier == index || hb.before(earlier, index, operand)) return;
    ordered = fail(Rule::kRace, {earlier, index},
                   fmt::format("{} and {} both touch {}, at least one writes, and nothing orders them",
                               where(program_, earlier), where(program_, index),
                               format_region(program_, region.tensor, region.box)));
    found_->explanation += explain_order(earlier, index);
  });
  return ordered;
}

std::string Validator::explain_order(uint32_t first, uint32_t second) const {
  const auto signals = program_.signals_of(program_.instructions[first]);
  std::string out = "missing: ";
  if (signals.empty()) {
    return out + fmt::format("{} signals no counter; it would have to signal one that {} waits for\n",
                             where(program_, first), where(program_, second));
  }
  const Signal& s = signals.front();
  return out + fmt::format("{} -> counter {} -> {}: a wait for counter {} to reach {} would order them\n",
                           where(program_, first), s.counter, where(program_, second), s.counter,
                           program_.counters[s.counter].increments_per_pass);
}

bool Validator::check_fresh(uint32_t index, const Region& region) {
  uncovered_.assign(1, region.box);
  log_.for_writes(region, [&](const Box& box) { subtract(uncovered_, box); });
  if (uncovered_.empty()) return true;
  return fail(
      Rule::kStale, {index},
      fmt::format("{}: reads {}, which nothing has written in this pass", where(program_, index),
                  format_region(program_, region.tensor, intersection(uncovered_.front(), region.box))));
}

bool Validator::check_gate(const HappensBefore& hb) {
  for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
    if (hb.before_gate(i)) continue;
    return fail(Rule::kGate, {i},
                fmt::format("{}: may still run when counter {} opens the gate to the next pass",
                            where(program_, i), program_.gate_counter));
  }
  return true;
}

}  // namespace

const char* name_of(Rule rule) {
  switch (rule) {
    case Rule::kStructure:
      return "structure";
    case Rule::kOperands:
      return "operands";
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
    case Rule::kGate:
      return "gate";
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
