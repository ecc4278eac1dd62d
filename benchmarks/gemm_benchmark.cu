// Times the tile stream (instructions/product/orders/sm90/tile_stream.cuh) in the interpreter: every SM of
// the GPU, products of 2,048 tokens in Llama-8B's and 1B's shapes, no other instruction in the pass. Prints a
// line for each shape: microseconds of a pass and TFLOP/s, medians of several launches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/gemm_isa.cuh"
#include "tests/device/toy_program.h"
#include "vm/device/interpreter.h"

namespace serval {
namespace {

using namespace serval::testing;
using Config = Tokens256;

constexpr uint32_t kSms = 132, kRows = 2048, kPasses = 10, kLaunches = 7;

struct Shape {
  const char* name;
  uint32_t outputs;  // of the product; of gate and up each
  uint32_t cols;
  bool silu;
};

std::vector<uint16_t> random_bf16(size_t n) {
  std::vector<uint16_t> out(n);
  uint32_t x = 12345;
  for (uint16_t& v : out) {
    x = x * 1664525 + 1013904223;
    v = static_cast<uint16_t>((x >> 16 & 0x80ff) | 0x3c00);  // about ±0.01 to ±0.03
  }
  return out;
}

class Pass {
 public:
  explicit Pass(const Shape& shape) : shape_(shape), toy_(kSms, QueueKind::kPerSm, kRows) {
    done_ = toy_.add_counter();
    gate_ = toy_.add_counter();
    input_ = toy_.add_vector(slab_image::bytes(kRows, shape.cols));
    shape.silu ? add_silu() : add_residual();
    program_ = toy_.finish(gate_);
    memory_ = std::make_unique<ToyMemory>(program_);
    DeviceOptions options;
    options.stall_timeout_s = 2;
    interpreter_ =
        std::make_unique<DeviceInterpreter>(program_, gemm_isa<Config>(), memory_->bound(), options);
    for (const TensorId weights : weights_)
      memory_->write(weights, random_bf16(page_image::bytes(shape.outputs, shape.cols) / sizeof(uint16_t)));
    memory_->write(input_, random_bf16(slab_image::bytes(kRows, shape.cols) / sizeof(uint16_t)));
    memory_->write(*program_.find_tensor(state_tensor::kRows),
                   std::vector<PassRow>(kRows, PassRow{.active = 1}));
  }

  // Microseconds of a pass.
  double run() {
    memory_->write(*program_.find_tensor(state_tensor::kControl),
                   std::vector<PassControl>{{0, kPasses, kKeepRunning, 0}});
    const auto begin = std::chrono::steady_clock::now();
    interpreter_->run({kRows, kPasses, kRows}, nullptr, {});
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    return time.count() / kPasses;
  }
  double operations() const {
    return 2.0 * kRows * shape_.outputs * shape_.cols * static_cast<double>(weights_.size());
  }

 private:
  TensorId add_weights() {
    weights_.push_back(toy_.add_tensor("weights." + std::to_string(weights_.size()), shape_.outputs,
                                       shape_.cols, TensorKind::kWeight, DType::kBF16));
    return weights_.back();
  }
  void add_residual() {
    const TensorId w = add_weights(), norm = toy_.add_vector(shape_.outputs * sizeof(uint16_t));
    const TensorId residual =
        toy_.add_tensor("residual", kRows, shape_.outputs, TensorKind::kActivation, DType::kF32);
    const TensorId weighted = toy_.add_vector(slab_image::bytes(kRows, shape_.outputs));
    const TensorId squares =
        toy_.add_vector(size_t{kRows} * shape_.outputs / device::tile_stream::kSquaresCols * sizeof(float));
    add_tiles(device::tile_stream::kTileUnits, [&](uint32_t sm, uint32_t unit, uint32_t first) {
      toy_.add(sm, static_cast<uint16_t>(GemmOpcode::kResidual),
               GemmResidual{w, input_, norm, residual, weighted, squares, unit, kTileUnits, first,
                            Config::kTileTokens, shape_.cols, shape_.outputs},
               {{}, {{done_}}});
    });
  }
  void add_silu() {
    const TensorId gate = add_weights(), up = add_weights();
    const TensorId squares =
        toy_.add_vector(size_t{kRows} * shape_.cols / device::tile_stream::kSquaresCols * sizeof(float));
    const TensorId output = toy_.add_vector(slab_image::bytes(kRows, shape_.outputs));
    add_tiles(device::tile_stream::kPairUnits, [&](uint32_t sm, uint32_t unit, uint32_t first) {
      toy_.add(sm, static_cast<uint16_t>(GemmOpcode::kSilu),
               GemmSilu{gate, up, input_, squares, output, unit, device::tile_stream::kPairUnits, first,
                        Config::kTileTokens, shape_.cols, shape_.outputs},
               {{}, {{done_}}});
    });
  }
  template <class Add>
  void add_tiles(uint32_t units, Add&& add) {
    constexpr uint32_t kGroupRows = 4 * Config::kTileTokens;
    uint32_t records = 0;
    for (uint32_t group = 0; group < kRows; group += kGroupRows) {
      for (uint32_t unit = 0; unit < shape_.outputs / kUnitRows; unit += units) {
        for (uint32_t first = group; first < group + kGroupRows; first += Config::kTileTokens)
          add(records++ % kSms, unit, first);
      }
    }
    toy_.add(0, static_cast<uint16_t>(GemmOpcode::kTick), Tick{toy_.control, toy_.host_stop},
             {{{done_, records, 0xffff}}, {{gate_}}});
  }

  const Shape shape_;
  ToyProgram toy_;
  Program program_;
  std::unique_ptr<ToyMemory> memory_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
  std::vector<TensorId> weights_;
  TensorId input_;
  uint32_t done_ = 0, gate_ = 0;
};

void time_shape(const Shape& shape) {
  Pass pass(shape);
  pass.run();
  std::vector<double> us;
  for (uint32_t n = 0; n < kLaunches; ++n) us.push_back(pass.run());
  std::nth_element(us.begin(), us.begin() + kLaunches / 2, us.end());
  const double median = us[kLaunches / 2];
  std::printf("%-16s %6u x %6u x %u: %8.1f us, %5.0f TFLOP/s\n", shape.name,
              shape.outputs * (shape.silu ? 2 : 1), shape.cols, kRows, median,
              pass.operations() / median * 1e-6);
}

}  // namespace
}  // namespace serval

int main() {
  using serval::time_shape;
  time_shape({"8B QKV", 6144, 4096, false});  // with a residual in place of RoPE
  time_shape({"8B O", 4096, 4096, false});
  time_shape({"8B down", 4096, 14336, false});
  time_shape({"8B gate and up", 14336, 4096, true});
  time_shape({"1B gate and up", 8192, 2048, true});
}
