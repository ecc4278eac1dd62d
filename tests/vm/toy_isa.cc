#include "tests/vm/toy_isa.h"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace serval::testing {
namespace {

constexpr TensorId kCells{0}, kControl{1}, kStop{2};

struct ToyLocal final : HostLocal {
  uint32_t value = 0;
};

// Common to all opcodes: read a word, optionally delay, write a word.
class ToyHandler : public HostHandler {
 public:
  std::unique_ptr<HostLocal> make_local() const override { return std::make_unique<ToyLocal>(); }
  void load(const Instruction& i, const HostMemory& m, HostLocal& local) const override {
    static_cast<ToyLocal&>(local).value = take(i.as<ToyOperands>(), m);
  }
  void compute(const Instruction& i, const HostMemory&, HostLocal&) const override {
    if (const uint32_t us = i.as<ToyOperands>().delay_us)
      std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  void store(const Instruction& i, const HostMemory& m, HostLocal& local) const override {
    put(i.as<ToyOperands>(), m, static_cast<ToyLocal&>(local).value);
  }

 protected:
  virtual uint32_t take(const ToyOperands& op, const HostMemory& m) const {
    return m.data<uint32_t>(kCells)[op.in];
  }
  virtual void put(const ToyOperands& op, const HostMemory& m, uint32_t value) const = 0;
};

class Add final : public ToyHandler {
  void put(const ToyOperands& op, const HostMemory& m, uint32_t value) const override {
    m.data<uint32_t>(kCells)[op.out] = value + op.value;
  }
};

class Trace final : public ToyHandler {
  uint32_t take(const ToyOperands&, const HostMemory& m) const override {
    return std::atomic_ref(m.data<PassControl>(kControl)->passes_done).load();
  }
  void put(const ToyOperands& op, const HostMemory& m, uint32_t value) const override {
    uint32_t* cells = m.data<uint32_t>(kCells);
    cells[op.out + cells[op.in]++] = value;
  }
};

class Throw final : public ToyHandler {
  void put(const ToyOperands&, const HostMemory&, uint32_t value) const override {
    if (value != 0) throw std::length_error("toy");
  }
};

class End final : public ToyHandler {
  uint32_t take(const ToyOperands&, const HostMemory&) const override { return 0; }
  void put(const ToyOperands&, const HostMemory& m, uint32_t) const override {
    PassControl& control = *m.data<PassControl>(kControl);
    const uint32_t pass = std::atomic_ref(control.passes_done).fetch_add(1);
    const bool stopped = std::atomic_ref(*m.data<uint32_t>(kStop)).load() != 0;
    if (stopped || pass + 1 >= control.passes_wanted) {
      std::atomic_ref(control.last_pass).store(pass, std::memory_order_release);
    }
  }
};

// A signal between instructions that does not use counters.
class Open final : public ToyHandler {
  uint32_t take(const ToyOperands& op, const HostMemory& m) const override {
    std::atomic_ref(m.data<uint32_t>(kCells)[op.out]).store(op.value);
    return 0;
  }
  void put(const ToyOperands&, const HostMemory&, uint32_t) const override {}
};

class Hold final : public ToyHandler {
  uint32_t take(const ToyOperands& op, const HostMemory& m) const override {
    while (std::atomic_ref(m.data<uint32_t>(kCells)[op.in]).load() < op.value) std::this_thread::yield();
    return 0;
  }
  void put(const ToyOperands&, const HostMemory&, uint32_t) const override {}
};

class Ask final : public ToyHandler {
  bool has_input_of_caller(const Instruction& i, const HostMemory& m) const override {
    const uint32_t passes_done = std::atomic_ref(m.data<PassControl>(kControl)->passes_done).load();
    return std::atomic_ref(m.data<uint32_t>(kCells)[i.as<ToyOperands>().in]).load() == passes_done + 1;
  }
  uint32_t take(const ToyOperands& op, const HostMemory& m) const override {
    return std::atomic_ref(m.data<uint32_t>(kCells)[op.in]).load();
  }
  void put(const ToyOperands& op, const HostMemory& m, uint32_t value) const override {
    m.data<uint32_t>(kCells)[op.out] += value;
  }
};

std::string check(const Program&, const Instruction& i) {
  return i.opcode > kToyAsk ? "opcode: unknown" : "";
}

const char* name(uint16_t opcode) {
  static constexpr const char* kNames[] = {"add", "trace", "throw", "end", "open", "hold", "ask"};
  return opcode <= kToyAsk ? kNames[opcode] : "unknown";
}

}  // namespace

const HostIsa& toy_isa() {
  static const Add add;
  static const Trace trace;
  static const Throw thrower;
  static const End end;
  static const Open open;
  static const Hold hold;
  static const Ask ask;
  static const HostHandler* const handlers[] = {&add, &trace, &thrower, &end, &open, &hold, &ask};
  static const HostIsa isa{handlers, check, name};
  return isa;
}

ToyBuilder::ToyBuilder(uint32_t sms, QueueKind kind)
    : sms_(sms), kind_(kind), queues_(kind == QueueKind::kGlobal ? 1 : sms) {}

uint32_t ToyBuilder::counter() {
  return num_counters_++;
}

void ToyBuilder::add(uint32_t queue, ToyOpcode opcode, const ToyOperands& operands, std::vector<Wait> waits,
                     std::vector<Signal> signals) {
  Instruction i;
  i.opcode = opcode;
  i.set(operands);
  queues_.at(queue).push_back({i, std::move(waits), std::move(signals)});
}

Program ToyBuilder::build(uint32_t gate) const {
  Program p;
  p.machine = host_machine(sms_);
  p.queue_kind = kind_;
  p.gate_counter = gate;
  p.counters.resize(num_counters_);
  p.tensors = {{.name = "cells", .rows = 1, .cols = kToyCells, .dtype = DType::kI32},
               {.name = state_tensor::kControl,
                .rows = 1,
                .cols = sizeof(PassControl),
                .dtype = DType::kBytes,
                .kind = TensorKind::kState},
               {.name = state_tensor::kHostStop,
                .rows = 1,
                .cols = sizeof(uint32_t),
                .dtype = DType::kBytes,
                .kind = TensorKind::kState}};
  p.queue_begin.push_back(0);
  for (const auto& queue : queues_) {
    for (const Item& item : queue) {
      Instruction i = item.instruction;
      i.wait_begin = static_cast<uint32_t>(p.waits.size());
      i.wait_count = static_cast<uint16_t>(item.waits.size());
      i.signal_begin = static_cast<uint32_t>(p.signals.size());
      i.signal_count = static_cast<uint16_t>(item.signals.size());
      p.waits.insert(p.waits.end(), item.waits.begin(), item.waits.end());
      p.signals.insert(p.signals.end(), item.signals.begin(), item.signals.end());
      for (const Signal& s : item.signals) p.counters[s.counter].increments_per_pass += s.increment;
      p.instructions.push_back(i);
    }
    p.queue_begin.push_back(static_cast<uint32_t>(p.instructions.size()));
  }
  return p;
}

ToyMachine::ToyMachine(Program p, uint32_t threads, double stall_timeout_s)
    : program(std::move(p)), interpreter_(program, toy_isa(), bind(), {threads, stall_timeout_s}) {}

HostMemory ToyMachine::bind() {
  HostMemory memory(program);
  memory.bind(kCells, cells.data());
  memory.bind(kControl, &control);
  memory.bind(kStop, &stop);
  return memory;
}

uint32_t ToyMachine::run(uint32_t passes, const std::function<void(uint32_t)>& on_pass) {
  control = {.passes_done = 0, .passes_wanted = passes, .last_pass = kKeepRunning, .stopped_by_host = 0};
  return interpreter_.run(on_pass);
}

}  // namespace serval::testing
