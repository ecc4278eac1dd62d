#include "tests/sim/hand_made.h"

#include "instructions/isa.h"
#include "scheduler/placement.h"
#include "vm/layout/units.h"
#include "vm/reflect.h"
#include "vm/state/names.h"
#include "vm/state/rows.h"

namespace serval::testing {
namespace {

constexpr uint32_t kCols = 1024;
constexpr uint32_t kMaxUnits = 64;

// The first device's tensors; those of the other devices follow each of them.
struct Tensors {
  TensorId weights, input, rows, norm, residual, weighted, squares, partial;
};

Tensors add_tensors(Program& program) {
  const auto add = [&](const char* name, uint64_t rows, uint64_t cols, DType dtype, TensorKind kind) {
    const bool product_input = kind == TensorKind::kActivation && dtype == DType::kBF16;
    const TensorId first{static_cast<uint32_t>(program.tensors.size())};
    for (uint32_t device = 0; device < program.num_devices; ++device) {
      program.tensors.push_back({.name = name,
                                 .rows = rows,
                                 .cols = cols,
                                 .dtype = dtype,
                                 .kind = kind,
                                 .image = product_input ? Image::kActivation : image_of(kind, rows),
                                 .device = static_cast<uint8_t>(device)});
    }
    return first;
  };
  const uint64_t out_cols = kMaxUnits * kUnitRows;
  return {.weights = add("weights", out_cols, kCols, DType::kBF16, TensorKind::kWeight),
          .input = add("input", kDefaultRows, kCols, DType::kBF16, TensorKind::kActivation),
          .rows = add(state_tensor::kRows, kDefaultRows, sizeof(PassRow), DType::kBytes, TensorKind::kState),
          .norm = add("norm", 1, out_cols, DType::kBF16, TensorKind::kWeight),
          .residual = add("residual", kDefaultRows, out_cols, DType::kF32, TensorKind::kActivation),
          .weighted = add("weighted", kDefaultRows, out_cols, DType::kBF16, TensorKind::kActivation),
          .squares = add("squares", kDefaultRows, out_cols / kUnitRows, DType::kF32, TensorKind::kActivation),
          .partial = add("partial", kDefaultRows, out_cols, DType::kF32, TensorKind::kActivation)};
}

MatvecResidual product(const Tensors& t, uint32_t units) {
  return {.weights = t.weights,
          .input = t.input,
          .rows = t.rows,
          .norm = t.norm,
          .residual = t.residual,
          .weighted = t.weighted,
          .squares = t.squares,
          .first_unit = 0,
          .num_units = units,
          .in_cols = kCols,
          .out_cols = kMaxUnits * kUnitRows,
          .num_rows = kDefaultRows};
}

// For columns that the device after `device` adds up.
MatvecPush pushed_product(const Tensors& t, uint32_t units, uint32_t device, uint32_t devices) {
  return {.weights = t.weights,
          .input = t.input,
          .rows = t.rows,
          .partial = {t.partial.index},
          .first_unit = (device + 1) % devices * kMaxUnits / devices,
          .num_units = units,
          .in_cols = kCols,
          .out_cols = kMaxUnits * kUnitRows,
          .rank = device,
          .ranks = devices,
          .num_rows = kDefaultRows};
}

}  // namespace

HandMade::HandMade(uint32_t sms, QueueKind kind, uint32_t devices)
    : sms_(sms), kind_(kind), devices_(devices), queues_(kind == QueueKind::kGlobal ? 1 : sms * devices) {}

uint32_t HandMade::counter() {
  counters_.emplace_back();
  return static_cast<uint32_t>(counters_.size() - 1);
}

uint32_t HandMade::counter_on(uint32_t device) {
  counters_.push_back({.scope = CounterScope::kSystem, .device = static_cast<uint8_t>(device)});
  return static_cast<uint32_t>(counters_.size() - 1);
}

void HandMade::add(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals) {
  queues_[queue].push_back({false, units, std::move(waits), std::move(signals)});
}

void HandMade::push(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals) {
  queues_[queue].push_back({true, units, std::move(waits), std::move(signals)});
}

Program HandMade::build(uint32_t gate) const {
  Program program;
  program.machine = h200_machine();
  program.machine.sms = sms_;
  program.queue_kind = kind_;
  program.limits = {.vocab = 1, .max_context = 1024, .kv_blocks = 16};
  program.gate_counter = gate;
  program.num_devices = devices_;
  program.counters = counters_;
  const Tensors tensors = add_tensors(program);
  program.queue_begin.push_back(0);
  for (uint32_t q = 0; q < queues_.size(); ++q) {
    const uint32_t device = program.device_of_queue(q);
    for (const Item& item : queues_[q]) {
      Instruction instruction =
          item.pushes
              ? make_instruction(on_rank(pushed_product(tensors, item.units, device, devices_), device))
              : make_instruction(on_rank(product(tensors, item.units), device));
      instruction.wait_begin = static_cast<uint32_t>(program.waits.size());
      instruction.wait_count = static_cast<uint16_t>(item.waits.size());
      instruction.signal_begin = static_cast<uint32_t>(program.signals.size());
      instruction.signal_count = static_cast<uint16_t>(item.signals.size());
      program.waits.insert(program.waits.end(), item.waits.begin(), item.waits.end());
      program.signals.insert(program.signals.end(), item.signals.begin(), item.signals.end());
      for (const Signal& signal : item.signals)
        program.counters[signal.counter].increments_per_pass += signal.increment;
      program.instructions.push_back(instruction);
    }
    program.queue_begin.push_back(static_cast<uint32_t>(program.instructions.size()));
  }
  return program;
}

SimParameters round_numbers() {
  SimParameters p = h200_sim_parameters();
  p.gb_per_s = p.sm_gb_per_s = p.l2_gb_per_s = 1e6;  // no queueing
  p.under_load_sms = 1;
  p.under_load = {{.in_flight_bytes = 0, .gb_per_s = 0, .round_us = 1},
                  {.in_flight_bytes = 16384, .gb_per_s = 8.192, .round_us = 1}};  // 16 KiB in 2 µs
  p.latency_factor = p.round_factor = 1;
  p.notice_rounds = p.read_rounds = p.signal_us = 1;
  p.notice_us = p.join_us = p.next_tile_us = p.last_storer_us = p.scale_us = p.land_us = 0;
  p.ring_pages = 9;
  p.pages_in_flight = p.pages_in_flight_waiting = 2;
  p.record_buffers = 8;
  p.consumer_warps = 8;
  p.storer_warps = 4;
  p.activation_rows = 32;
  p.partial_bytes = 8192;
  p.partial_buffers = 16;
  p.fetch_us = 0.5;
  p.load_us = p.issue_us = p.prepare_us = p.prepare_us_per_kib = p.sm_page_us = 0;
  p.take_us = 0.25;
  p.multiply_us = 1;
  p.chain_us = 2;
  p.store_us = 0.5;
  return p;
}

}  // namespace serval::testing
