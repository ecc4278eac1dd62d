#include "tests/viewer/wave_trace.h"

#include <algorithm>
#include <fmt/format.h>

namespace serval {
namespace {

constexpr int64_t kLaunchBegin = 800;  // so that what runs ahead of the first round is not before 0
constexpr int64_t kLate = 40;          // from one SM of a round to the next
constexpr int64_t kSlow = 200;
constexpr int64_t kBeforeCompute = 250, kAfterCompute = 100;
constexpr uint64_t kBytes = 4096;
constexpr uint32_t kGate = 0;  // of rank 0; those of the others follow

enum WaveOp : uint32_t { kGateUp = 0, kDown, kAdvance };

// The counter of a round: those after the gates, in order.
uint32_t counter_of(const WaveShape& shape, uint32_t round) {
  return shape.ranks + round;
}

TraceInstruction instruction(const WaveShape& shape, uint32_t round, uint32_t sm, TraceProgram& program) {
  const bool last = round + 1 == rounds_of(shape);
  TraceInstruction i;
  i.op = last ? kAdvance : round % 2;
  i.layer = last ? kNoTag : static_cast<uint16_t>(round / 2);
  i.queue = sm;
  i.pc = round;
  i.bytes = kBytes;
  i.operations = shape.operations;
  i.wait_begin = static_cast<uint32_t>(program.waits.size());
  i.wait_count = 1;
  i.signal_begin = static_cast<uint32_t>(program.signals.size());
  i.signal_count = last ? shape.ranks : 1;
  const Wait wait = round == 0 ? Wait{program.gate_of(program.rank_of(sm)), 0, 1}
                               : Wait{counter_of(shape, round - 1), shape.sms, 1};
  const Signal signal{last ? kGate : counter_of(shape, round), 1};
  program.waits.push_back(wait);
  for (uint32_t s = 0; s < i.signal_count; ++s) program.signals.push_back({signal.counter + s, 1});
  const std::string layer = last ? "" : fmt::format(" layer={}", i.layer);
  i.text = fmt::format("{}{} input=x{} first_unit={} num_units=1 | wait c{}>={} (input) | signal c{}+1",
                       program.ops[i.op], layer, round, sm, wait.counter, wait.threshold, signal.counter);
  return i;
}

TraceProgram wave_program(const WaveShape& shape, const std::string& prefix) {
  TraceProgram program;
  program.machine = {
      .name = "wave", .sms = shape.sms, .pages_per_sm = 8, .gb_per_s = 100, .sm_gflop_per_s = 2000};
  program.ranks = shape.ranks;
  program.gate_counter = kGate;
  program.ops = {prefix + "gate_up", prefix + "down", prefix + "advance"};
  program.increments_per_pass.assign(shape.ranks + rounds_of(shape) - 1, shape.sms);
  std::fill_n(program.increments_per_pass.begin(), shape.ranks, 1);
  for (uint32_t sm = 0; sm < shape.sms; ++sm) {
    for (uint32_t round = 0; round < rounds_of(shape); ++round) {
      const bool last = round + 1 == rounds_of(shape);
      if (last && sm != 0) continue;
      program.instructions.push_back(instruction(shape, round, sm, program));
      if (shape.ranks > 1 && program.instructions.back().op == kGateUp)
        program.pushes.push_back({static_cast<uint32_t>(program.instructions.size() - 1),
                                  (program.rank_of(sm) + 1) % shape.ranks, kBytes, 2});
    }
  }
  return program;
}

// One of a round that begins at `round_ns`.
Execution execution(int64_t round_ns, int64_t compute_ns, uint32_t wait_counter) {
  Execution x;
  x.bytes = kBytes;
  x.last_counter = wait_counter;
  const int64_t computed = round_ns + kBeforeCompute + compute_ns;
  const std::array<int64_t, kNumEventKinds> at = {round_ns - 700,
                                                  round_ns - 650,  // fetched
                                                  round_ns - 600,
                                                  round_ns - 400,
                                                  round_ns - 300,
                                                  round_ns + 200,  // loaded
                                                  round_ns - 50,
                                                  round_ns + 100,
                                                  round_ns + 200,  // prepared
                                                  round_ns + kBeforeCompute,
                                                  computed,  // computed
                                                  computed + 20,
                                                  computed + 60,
                                                  computed + kAfterCompute};  // signalled
  x.at = at;
  return x;
}

}  // namespace

Trace wave_trace(const WaveShape& shape, const std::string& prefix) {
  Trace trace;
  trace.source = TraceSource::kSim;
  trace.metadata = {{"model", "wave"}, {"policy", "none"}};
  trace.program = wave_program(shape, prefix);
  const uint32_t last_round = rounds_of(shape) - 1;
  int64_t token_ns = kLaunchBegin;
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const int64_t compute_ns = shape.compute_ns + (token == shape.slow_token ? kSlow : 0);
    const int64_t round_length = kBeforeCompute + compute_ns + (shape.sms - 1) * kLate + kAfterCompute;
    for (uint32_t n = 0; n < trace.program.instructions.size(); ++n) {
      const TraceInstruction& i = trace.program.instructions[n];
      // Which SM is late differs from their order.
      const int64_t late = i.pc == last_round ? 0 : (i.queue * 7 % shape.sms) * kLate;
      Execution x = execution(token_ns + i.pc * round_length, compute_ns + late,
                              trace.program.waits[i.wait_begin].counter);
      x.instruction = n;
      x.pass = token;
      x.sm = i.queue;
      trace.executions.push_back(x);
    }
    const int64_t end_ns = token_ns + last_round * round_length + kBeforeCompute + compute_ns + kAfterCompute;
    trace.windows.push_back({token, token_ns, end_ns});
    token_ns = end_ns;
  }
  check_trace(trace, "wave");
  return trace;
}

}  // namespace serval
