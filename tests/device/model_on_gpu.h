// A model's tensors in GPU memory without a backend, so that tests can run programs that have no proof.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/prepare_state.h"
#include "engine/device/device_state.h"
#include "engine/device/device_tensors.h"
#include "engine/device/weight_upload.h"
#include "instructions/device_isa.h"
#include "instructions/planned_attention/plan_launch.h"
#include "models/llama/config.h"
#include "scheduler/valid_program.h"
#include "tests/device/rows_of_pass.h"
#include "tests/llama/tiny_model.h"
#include "vm/device/interpreter.h"

namespace serval::testing {

// The GPU's instruction set without its checks, for programs with records that it would refuse to bind.
inline const DeviceIsa& unchecked_isa() {
  static const DeviceIsa isa = [] {
    DeviceIsa unchecked = device_isa();
    unchecked.check = [](const Program&, const Instruction&) { return std::string(); };
    return unchecked;
  }();
  return isa;
}

// A model with random weights on the first GPU. Its pass has all rows of the program (rows_of_pass.h).
class ModelOnGpu {
 public:
  ModelOnGpu(const LlamaConfig& config, ValidProgram program, uint32_t rows_of_sequence)
      : program_(std::move(program)),
        attention_(attention_plan_shape(*program_)),
        tensors_(std::array{&*program_}),
        state_(program_->limits, std::array{kGpu}),
        sequences_(
            write_pass(state_.host(), random_tokens(config, program_->limits.rows, 1), rows_of_sequence)) {
    const UploadTarget target{kGpu, &tensors_};
    upload_weights(*make_random_weights(config, kSeed), config, *program_, {&target, 1}, {});
    upload_constants(config, program_->limits.max_context, target);
  }

  const Program& program() const { return *program_; }

  // `program` must have the same tensors as this model's, and must outlive the result.
  std::unique_ptr<DeviceInterpreter> bind(const Program& program, double stall_timeout_s = 10) const {
    DeviceMemory memory(program.tensors.size());
    tensors_.bind(program, memory);
    state_.bind(program, memory);
    return std::make_unique<DeviceInterpreter>(
        program, unchecked_isa(), memory,
        DeviceOptions{.stall_timeout_s = stall_timeout_s, .ranks = {{kGpu, stream_.get()}}});
  }
  // Runs the pass and returns the bits of its logits.
  std::vector<uint32_t> run(DeviceInterpreter& interpreter) {
    const StateLimits& limits = program_->limits;
    const size_t words = size_t{logit_rows(limits)} * limits.vocab;
    std::byte* logits = tensors_.data(model_tensor::kLogits);
    SERVAL_CUDA_CHECK(cudaMemset(logits, 0xff, words * sizeof(uint32_t)));  // makes a missing logit visible
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    prepare_state(*program_, attention_, 1, state_.host());
    const bool single_rows = attention_ && has_single_rows(state_.host().attention);
    const StateInUse use{.slots = sequences_};
    interpreter.run({limits.rows, 1, logit_rows(limits), single_rows}, {}, {}, [&](uint32_t rank) {
      state_.upload(use, rank, stream_);
      state_.upload_attention(rank, stream_);
    });
    std::vector<uint32_t> out(words);
    SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), logits, words * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  static constexpr int kGpu = 0;
  static constexpr uint64_t kSeed = 3;

  const ValidProgram program_;
  const std::optional<AttentionPlanShape> attention_;
  DeviceTensors tensors_;
  DeviceState state_;
  const uint32_t sequences_;
  CudaStream stream_;
};

}  // namespace serval::testing
