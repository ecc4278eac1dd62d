// Hand-built programs of the toy instruction set, and their memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vm/device/device_array.h"
#include "vm/device/interpreter.h"
#include "vm/layout/page_image.h"
#include "vm/layout/row_tiles.h"
#include "vm/program.h"
#include "vm/state/control.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"

namespace serval::testing {

// An instruction's waits and signals.
struct Edges {
  std::vector<Wait> waits;
  std::vector<Signal> signals;
};

class ToyProgram {
 public:
  // Every kernel can run one row.
  explicit ToyProgram(uint32_t sms, QueueKind kind = QueueKind::kPerSm, uint32_t rows = 1)
      : queues_(kind == QueueKind::kPerSm ? sms : 1) {
    program_.machine.name = "toy";
    program_.machine.sms = sms;
    program_.machine.pages_per_sm = 1;
    program_.queue_kind = kind;
    program_.limits = {.vocab = 1, .max_context = 1, .kv_blocks = 1, .rows = rows};
    add_tensor(state_tensor::kRows, rows, sizeof(PassRow), TensorKind::kState);
    control = add_tensor(state_tensor::kControl, 1, sizeof(PassControl), TensorKind::kState);
    host_stop = add_tensor(state_tensor::kHostStop, 1, sizeof(uint32_t), TensorKind::kState);
  }

  TensorId add_tensor(const std::string& name, uint64_t rows, uint64_t cols, TensorKind kind,
                      DType dtype = DType::kBytes) {
    program_.tensors.push_back({.name = name, .rows = rows, .cols = cols, .dtype = dtype, .kind = kind});
    return {static_cast<uint32_t>(program_.tensors.size() - 1)};
  }
  TensorId add_vector(uint64_t bytes) {
    return add_tensor("vector." + std::to_string(program_.tensors.size()), 1, bytes, TensorKind::kActivation);
  }
  uint32_t add_counter() {
    program_.counters.push_back({});
    return static_cast<uint32_t>(program_.counters.size() - 1);
  }
  template <class Op>
  void add(uint32_t queue, uint16_t opcode, const Op& op, Edges edges) {
    Item item;
    item.record.opcode = opcode;
    item.record.set(op);
    item.edges = std::move(edges);
    queues_[queues_.size() == 1 ? 0 : queue].push_back(std::move(item));
  }

  // Lays out queues and side tables; counts the signals for increments_per_pass.
  Program finish(uint32_t gate_counter) {
    program_.gate_counter = gate_counter;
    program_.queue_begin = {0};
    for (const std::vector<Item>& queue : queues_) {
      for (const Item& item : queue) append(item);
      program_.queue_begin.push_back(static_cast<uint32_t>(program_.instructions.size()));
    }
    return program_;
  }

  TensorId control, host_stop;

 private:
  struct Item {
    Instruction record;
    Edges edges;
  };
  void append(const Item& item) {
    Instruction record = item.record;
    record.wait_begin = static_cast<uint32_t>(program_.waits.size());
    record.wait_count = static_cast<uint16_t>(item.edges.waits.size());
    record.signal_begin = static_cast<uint32_t>(program_.signals.size());
    record.signal_count = static_cast<uint16_t>(item.edges.signals.size());
    program_.waits.insert(program_.waits.end(), item.edges.waits.begin(), item.edges.waits.end());
    program_.signals.insert(program_.signals.end(), item.edges.signals.begin(), item.edges.signals.end());
    for (const Signal& s : item.edges.signals)
      program_.counters[s.counter].increments_per_pass += s.increment;
    program_.instructions.push_back(record);
  }

  Program program_;
  std::vector<std::vector<Item>> queues_;
};

// Zeroed GPU memory for each of a program's tensors; the host's stop word and the output table are in pinned
// memory.
class ToyMemory {
 public:
  explicit ToyMemory(const Program& program)
      : memory_(program.tensors.size()), stop_(1), output_(output_words(program)) {
    constexpr size_t kAlignment = 1024;
    std::vector<std::pair<uint32_t, size_t>> offsets;  // in the order of the table
    size_t end = 0;
    for (uint32_t t = 0; t < program.tensors.size(); ++t) {
      if (program.tensors[t].name == state_tensor::kHostStop) {
        memory_.bind({t}, stop_.device_data());
        continue;
      }
      if (program.tensors[t].name == state_tensor::kOutput) {
        memory_.bind({t}, output_.device_data());
        continue;
      }
      offsets.emplace_back(t, end);
      end += (bytes_of(program.tensors[t]) + kAlignment - 1) / kAlignment * kAlignment;
    }
    all_ = DeviceArray<std::byte>(end);
    for (const auto& [t, offset] : offsets) memory_.bind({t}, all_.data() + offset);
  }
  const DeviceMemory& bound() const { return memory_; }
  uint32_t* host_stop() const { return stop_.data(); }
  uint32_t* output() const { return output_.data(); }

  template <class T>
  void write(TensorId tensor, const std::vector<T>& values) const {
    SERVAL_CUDA_CHECK(
        cudaMemcpy(memory_.base(tensor), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  template <class T>
  std::vector<T> read(TensorId tensor, size_t count) const {
    std::vector<T> values(count);
    SERVAL_CUDA_CHECK(
        cudaMemcpy(values.data(), memory_.base(tensor), count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  // The interpreter copies whole tiles of rows, and GEMMs read page images.
  static size_t bytes_of(const Tensor& tensor) {
    if (tensor.kind == TensorKind::kWeight)
      return page_image::bytes(tensor.rows, static_cast<uint32_t>(tensor.cols));
    return tensor.name == state_tensor::kRows
               ? whole_row_tiles(static_cast<uint32_t>(tensor.rows)) * sizeof(PassRow)
               : tensor.bytes();
  }
  static size_t output_words(const Program& program) {
    const auto output = program.find_tensor(state_tensor::kOutput);
    return output ? program.tensors[output->index].bytes() / sizeof(uint32_t) : 1;
  }

  DeviceMemory memory_;
  PinnedArray<uint32_t> stop_;
  PinnedArray<uint32_t> output_;
  DeviceArray<std::byte> all_;
};

}  // namespace serval::testing
