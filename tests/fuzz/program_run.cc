#include "tests/fuzz/program_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "instructions/isa.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/host/replay.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/block.h"
#include "vm/state/check.h"
#include "vm/state/names.h"
#include "vm/state/parts.h"

namespace serval::fuzz {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 23;       // over all tensors
constexpr uint64_t kMaxOperations = uint64_t{1} << 23;  // per pass
constexpr uint32_t kPasses = 3;
constexpr uint32_t kPromptRows = 3;

bool is_small(const Program& program) {
  if (program.limits.rows < kPromptRows + 2 || program.limits.sequences < 2) return false;
  uint64_t bytes = StateLayout(program.limits).bytes, operations = 0;
  for (const Tensor& t : program.tensors) {
    if (t.bytes() > kMaxBytes) return false;
    bytes += t.bytes();
  }
  for (const Instruction& i : program.instructions)
    operations +=
        op_info(i.opcode)
            .cost(i, program, program.tensors, {.rows = kPromptRows + 1, .context_tokens = kLeafTokens})
            .operations;
  return bytes <= kMaxBytes && operations <= kMaxOperations;
}

// Numbers between -1 and 1 that differ between elements.
float weight(uint64_t element) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  constexpr float kScale = 0x1p-8F;
  return kScale * static_cast<float>(static_cast<int>(element * kPrime >> 55) - 256);
}

// Rows of a prompt in slot 1, of which the last wants logits; then, after an inactive row, a row of slot 0 as
// near to the end of the context as the passes allow.
void set_rows(const StateLimits& limits, StateBlock& state) {
  const uint32_t last = limits.max_context > kPasses ? limits.max_context - kPasses : 0;
  for (uint32_t r = 0; r < kPromptRows; ++r) {
    state.rows[r] = {
        .active = 1, .wants_logits = r + 1 == kPromptRows ? 1U : 0U, .slot = 1, .token = 0, .position = r};
  }
  state.rows[kPromptRows + 1] = {.active = 1, .wants_logits = 1, .slot = 0, .token = 0, .position = last};
  for (SequenceSlot& slot : state.slots) slot.end_position = limits.max_context;
  state.slots[0].temperature = 1;
  state.slots[0].presence_penalty = 1;
  state.slots[0].extras = extras_of(state.slots[0]);
  state.control = {
      .passes_done = 0, .passes_wanted = kPasses, .last_pass = kKeepRunning, .stopped_by_host = 0};
}

// Allocates each tensor separately, so that AddressSanitizer detects accesses beyond it.
class Memory {
 public:
  Memory(const Program& program, std::byte left_over) : program_(program), host_(program) {
    for (uint32_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      const std::byte first = lives_within_pass(tensor) ? left_over : std::byte{0};
      tensors_.emplace_back(tensor.bytes(), first);
      if (is_immutable(tensor.kind)) fill(tensor, tensors_.back());
      host_.bind({t}, tensors_.back().data());
    }
  }

  const HostMemory& host() const { return host_; }

  void put(const char* part, const void* from) {
    for (uint32_t device = 0; device < program_.num_devices; ++device) {
      if (const auto id = program_.find_tensor(part, device))
        std::memcpy(tensors_[id->index].data(), from, tensors_[id->index].size());
    }
  }
  Results results() const {
    Results out;
    if (const auto id = program_.find_tensor(state_tensor::kOutput)) {
      out.resize(size_t{kPasses} * program_.limits.rows);
      std::memcpy(out.data(), tensors_[id->index].data(), out.size() * sizeof(OutputToken));
    }
    return out;
  }

 private:
  static void fill(const Tensor& tensor, std::vector<std::byte>& bytes) {
    for (uint64_t e = 0; e < tensor.rows * tensor.cols; ++e) {
      const float value = weight(e);
      const uint16_t half = float_to_bf16(value);
      if (tensor.dtype == DType::kBF16) std::memcpy(bytes.data() + e * sizeof half, &half, sizeof half);
      if (tensor.dtype == DType::kF32) std::memcpy(bytes.data() + e * sizeof value, &value, sizeof value);
    }
  }

  const Program& program_;
  std::vector<std::vector<std::byte>> tensors_;
  HostMemory host_;
};

}  // namespace

std::optional<Results> run_program(const Program& program, uint64_t seed, std::byte left_over) {
  if (!is_small(program)) return std::nullopt;
  StateBlock state(program.limits);
  set_rows(program.limits, state);
  std::iota(state.block_table.begin(), state.block_table.end(), 0);
  try {
    check_state(program, state);
  } catch (const Error&) {
    return std::nullopt;
  }
  Memory memory(program, left_over);
  memory.put(state_tensor::kRows, state.rows.data());
  memory.put(state_tensor::kSlots, state.slots.data());
  memory.put(state_tensor::kAdjustments, state.adjustments.data());
  memory.put(state_tensor::kMasks, state.masks.data());
  memory.put(state_tensor::kControl, &state.control);
  memory.put(state_tensor::kBlockTable, state.block_table.data());
  ReplayInterpreter(program, host_isa(), memory.host(), seed).run({});
  return memory.results();
}

}  // namespace serval::fuzz
