// Copies a bench's tensors to GPU memory and runs instances of one instruction as a program of one pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "instructions/device_isa.h"
#include "instructions/isa.h"
#include "instructions/kernels.h"
#include "tests/device/gpu_tensors.h"
#include "tests/instructions/scene.h"
#include "vm/device/interpreter.h"
#include "vm/state/names.h"

namespace serval::testing {

class DeviceBench {
 public:
  // `gpus`: the GPU of each of the bench's devices; they must have access to each other's memory.
  explicit DeviceBench(Bench& bench, std::vector<int> gpus = {0})
      : bench_(bench), gpus_(std::move(gpus)), tensors_(bench, gpus_), stop_(1) {
    for (const int gpu : gpus_) {
      use_gpu(gpu);
      controls_.push_back(one_pass());
      streams_.push_back(std::make_unique<CudaStream>());
    }
  }
  // For weights whose rows are paired by the rotation.
  void pair_rows(TensorId weight, uint32_t head_dim) { tensors_.pair_rows(weight, head_dim); }
  void upload() {
    tensors_.upload();
    tensors_.pack_weights();
  }

  // Runs each rank's instances on `sms` SMs of its own, all ranks in parallel, and copies the results to the
  // bench's memory. Returns the number of passes run.
  uint32_t run(const std::vector<std::vector<Instruction>>& of_ranks, uint32_t sms,
               const DeviceLaunch& launch) {
    const Program program = program_of(of_ranks, sms);
    DeviceOptions options{.stall_timeout_s = 2, .ranks = {}};
    for (size_t rank = 0; rank < gpus_.size(); ++rank)
      options.ranks.push_back({gpus_[rank], streams_[rank]->get()});
    const DeviceIsa isa = isa_of_bench();
    DeviceInterpreter interpreter(program, isa, bound(program), options);
    const uint32_t passes = interpreter.run(launch, {});
    for (uint32_t t = 0; t < bench_.memory.size(); ++t) {
      if (!is_immutable(bench_.tensor({t}).kind)) tensors_.download({t});
    }
    return passes;
  }

 private:
  // The launch ends after its first pass, whatever the instances decide.
  static DeviceArray<PassControl> one_pass() {
    const PassControl control{.passes_done = 0, .passes_wanted = 1, .last_pass = 0, .stopped_by_host = 0};
    return DeviceArray<PassControl>(std::span(&control, 1));
  }
  uint32_t ranks() const { return static_cast<uint32_t>(gpus_.size()); }

  // The bench checks its instances before it renames tensors (program_of()).
  static DeviceIsa isa_of_bench() {
    DeviceIsa isa = device_isa();
    isa.check = [](const Program&, const Instruction&) { return std::string(); };
    return isa;
  }
  // The interpreter gets its own controls and stop word, after the bench's tensors, so that instances may
  // change the bench's.
  Program program_of(const std::vector<std::vector<Instruction>>& of_ranks, uint32_t sms) const {
    Program p = bench_.program;
    p.machine = h200_machine();
    p.machine.sms = sms;
    for (size_t i = 0; i < p.tensors.size(); ++i) {
      Tensor& tensor = p.tensors[i];
      if (tensor.name == state_tensor::kControl) tensor.name = "the bench's control";
      if (tensor.name == state_tensor::kHostStop) tensor.name = "the bench's stop word";
      // With one device, the state that is pushed and its copy have the same name.
      const auto has_name = [&](const Tensor& t) {
        return t.name == tensor.name && t.device == tensor.device;
      };
      if (std::any_of(p.tensors.begin(), p.tensors.begin() + static_cast<ptrdiff_t>(i), has_name))
        tensor.name += " of tensor " + std::to_string(i);
    }
    const auto add_state = [&](const char* name, uint64_t bytes, uint32_t rank) {
      p.tensors.push_back({.name = name,
                           .rows = 1,
                           .cols = bytes,
                           .dtype = DType::kBytes,
                           .kind = TensorKind::kState,
                           .device = static_cast<uint8_t>(rank)});
    };
    for (uint32_t rank = 0; rank < ranks(); ++rank)
      add_state(state_tensor::kControl, sizeof(PassControl), rank);
    add_state(state_tensor::kHostStop, sizeof(uint32_t), 0);
    add_instances(of_ranks, sms, p);
    for (const KernelTraits& kernel : kernels()) {
      if (runs(kernel, p)) p.machine.pages_per_sm = std::min(p.machine.pages_per_sm, kernel.ring_pages);
    }
    return p;
  }
  // Instances are independent. Each signals the gates of all ranks.
  void add_instances(const std::vector<std::vector<Instruction>>& of_ranks, uint32_t sms, Program& p) const {
    uint32_t count = 0;
    for (const auto& instances : of_ranks) count += static_cast<uint32_t>(instances.size());
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      p.counters.push_back({.increments_per_pass = count,
                            .scope = ranks() == 1 ? CounterScope::kGpu : CounterScope::kSystem,
                            .device = static_cast<uint8_t>(rank)});
    }
    p.queue_begin = {0};
    for (uint32_t sm = 0; sm < ranks() * sms; ++sm) {
      const std::vector<Instruction>& instances = of_ranks[sm / sms];
      for (size_t i = sm % sms; i < instances.size(); i += sms) {
        p.instructions.push_back(instances[i]);
        p.instructions.back().signal_begin = static_cast<uint32_t>(p.signals.size());
        p.instructions.back().signal_count = static_cast<uint16_t>(ranks());
        for (uint32_t rank = 0; rank < ranks(); ++rank) p.signals.push_back({rank, 1});
      }
      p.queue_begin.push_back(static_cast<uint32_t>(p.instructions.size()));
    }
  }
  DeviceMemory bound(const Program& program) const {
    DeviceMemory memory(program.tensors.size());
    uint32_t next = 0;
    for (; next < bench_.memory.size(); ++next) memory.bind({next}, tensors_.base({next}));
    for (const DeviceArray<PassControl>& control : controls_) memory.bind({next++}, control.data());
    memory.bind({next}, stop_.device_data());
    return memory;
  }

  Bench& bench_;
  const std::vector<int> gpus_;
  GpuTensors tensors_;
  std::vector<DeviceArray<PassControl>> controls_;  // one for each rank
  std::vector<std::unique_ptr<CudaStream>> streams_;
  PinnedArray<uint32_t> stop_;
};

}  // namespace serval::testing
