#include "tests/profiler/trace_builder.h"

#include <algorithm>

namespace serval::testing {

TraceBuilder::TraceBuilder(uint32_t sms) {
  trace_.source = TraceSource::kDevice;
  trace_.program.machine = {.name = "test", .sms = sms, .pages_per_sm = 4, .gb_per_s = 10};
}

uint32_t TraceBuilder::counter() {
  trace_.program.increments_per_pass.push_back(0);
  return static_cast<uint32_t>(trace_.program.increments_per_pass.size() - 1);
}

uint32_t TraceBuilder::add(const std::string& op, uint32_t sm, std::vector<Wait> waits,
                           const std::vector<uint32_t>& signals, uint64_t bytes) {
  TraceProgram& p = trace_.program;
  const auto known = std::find(p.ops.begin(), p.ops.end(), op);
  TraceInstruction i;
  i.op = static_cast<uint32_t>(known - p.ops.begin());
  if (known == p.ops.end()) p.ops.push_back(op);
  i.queue = sm;
  i.pc = static_cast<uint32_t>(std::count_if(p.instructions.begin(), p.instructions.end(),
                                             [&](const TraceInstruction& t) { return t.queue == sm; }));
  i.bytes = bytes;
  i.wait_begin = static_cast<uint32_t>(p.waits.size());
  i.wait_count = static_cast<uint32_t>(waits.size());
  i.signal_begin = static_cast<uint32_t>(p.signals.size());
  i.signal_count = static_cast<uint32_t>(signals.size());
  i.text = op + " \"quoted\" \xc3\xa9";
  p.waits.insert(p.waits.end(), waits.begin(), waits.end());
  for (const uint32_t counter : signals) {
    p.signals.push_back({counter, 1});
    ++p.increments_per_pass[counter];
  }
  p.instructions.push_back(i);
  return static_cast<uint32_t>(p.instructions.size() - 1);
}

void TraceBuilder::window(int64_t begin_ns, int64_t end_ns) {
  const auto pass = static_cast<uint32_t>(trace_.windows.size());
  trace_.windows.push_back({pass, begin_ns, end_ns});
}

Execution& TraceBuilder::execute(uint32_t instruction) {
  Execution& x = trace_.executions.emplace_back();
  x.instruction = instruction;
  x.pass = trace_.windows.back().pass;
  x.sm = trace_.program.instructions[instruction].queue;
  x.bytes = trace_.program.instructions[instruction].bytes;
  return x;
}

Execution& TraceBuilder::execute(uint32_t instruction, int64_t ready, int64_t compute, int64_t end,
                                 int64_t signalled) {
  Execution& x = execute(instruction);
  x.set(EventKind::kInputsReady, ready);
  x.set(EventKind::kPrepared, compute);
  x.set(EventKind::kComputeBegin, compute);
  x.set(EventKind::kComputeEnd, end);
  x.set(EventKind::kStoreBegin, end);
  x.set(EventKind::kStored, signalled);
  x.set(EventKind::kSignalled, signalled);
  return x;
}

TraceBuilder two_sm_trace() {
  TraceBuilder b(2);
  const uint32_t done = b.counter(), gate = b.counter();
  const uint32_t quick = b.add("short", 0, {}, {done}, 100);
  const uint32_t last = b.add("last", 0, {{done, 2, 1}}, {gate}, 50);
  const uint32_t slow = b.add("long", 1, {}, {done}, 3000);
  b.gate(gate);
  for (const int64_t begin : {0, 1000}) {
    b.window(begin, begin + 1000);
    b.execute(quick, begin + 10, begin + 20, begin + 100, begin + 120);
    Execution& final_one = b.execute(last, begin + 700, begin + 750, begin + 950, begin + 1000);
    final_one.set(EventKind::kWaitBegin, begin + 30);
    final_one.last_counter = done;
    Execution& x = b.execute(slow, begin + 5, begin + 300, begin + 600, begin + 650);
    x.set(EventKind::kPrepared, begin + 200);
    x.set(EventKind::kLoadBegin, begin + 2);
    x.set(EventKind::kFirstLanded, begin + 290);
    x.set(EventKind::kLoadIssued, begin + 400);
    x.set(EventKind::kLastLanded, begin + 500);
    x.starved_ns = 40;
  }
  return b;
}

TraceBuilder two_gpu_trace() {
  TraceBuilder b(2);
  b.share(2);
  const uint32_t pushed[] = {b.counter(), b.counter()}, reduced = b.counter(), gate = b.counter();
  b.counter();  // rank 1's gate
  uint32_t push[2], reduce[2], state = 0;
  for (const uint32_t rank : {0U, 1U}) {
    push[rank] = b.add("push", rank, {}, {pushed[0], pushed[1]}, 1000);
    reduce[rank] = b.add("reduce", rank, {{pushed[rank], 2, 1}}, {reduced});
    if (rank == 0) state = b.add("state", 0, {{reduced, 2, 1}}, {gate, gate + 1});
  }
  b.gate(gate);
  b.push(push[0], 1, 100);
  b.push(reduce[0], 1, 40);
  b.push(state, 1, 16);
  b.push(push[1], 0, 100);
  b.push(reduce[1], 0, 40);
  for (const int64_t begin : {0, 1000}) {
    b.window(begin, begin + 1000);
    b.execute(push[0], begin + 50, begin + 60, begin + 100, begin + 120);
    Execution& waits = b.execute(reduce[0], begin + 370, begin + 370, begin + 400, begin + 420);
    waits.set(EventKind::kWaitBegin, begin + 130);
    waits.last_counter = pushed[0];
    b.execute(state, begin + 440, begin + 440, begin + 900, begin + 1000).last_counter = reduced;
    b.execute(push[1], begin + 60, begin + 70, begin + 300, begin + 320);
    b.execute(reduce[1], begin + 340, begin + 340, begin + 360, begin + 380).last_counter = pushed[1];
  }
  return b;
}

}  // namespace serval::testing
