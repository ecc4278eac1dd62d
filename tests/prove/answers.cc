#include "tests/prove/answers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <numeric>
#include <string>

#include "instructions/isa.h"
#include "instructions/planned_attention/plan_launch.h"
#include "vm/base/bf16.h"
#include "vm/host/replay.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/attention.h"
#include "vm/state/block.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/parts.h"

namespace serval::testing {
namespace {

constexpr uint32_t kPrompt = 7, kTokens = 4;
constexpr uint32_t kSequences = 3, kAsked = 1;  // slots; 0 has the same prompt, 2 another
constexpr uint64_t kMostOperations = uint64_t{1} << 25;

int32_t prompt_token(uint32_t slot, uint32_t position, uint32_t vocab) {
  const uint32_t of = slot == 2 ? 2 : 1;
  return static_cast<int32_t>((position * 31 + of * 17) % vocab);
}

// Each tensor in zeroed memory of its own, but for weights and what lives within a pass.
class Memory {
 public:
  Memory(const Program& program, std::byte left_over) : program_(program), host_(program) {
    for (uint32_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      tensors_.emplace_back(static_cast<std::byte*>(std::calloc(tensor.bytes(), 1)), &std::free);
      if (is_immutable(tensor.kind))
        fill(tensor, tensors_.back().get());
      else if (lives_within_pass(tensor))
        std::memset(tensors_.back().get(), static_cast<int>(left_over), tensor.bytes());
      host_.bind({t}, tensors_.back().get());
    }
  }
  const HostMemory& host() const { return host_; }
  void put(const char* part, const void* from) {
    for (uint32_t device = 0; device < program_.num_devices; ++device) {
      if (const auto id = program_.find_tensor(part, device))
        std::memcpy(tensors_[id->index].get(), from, program_.tensors[id->index].bytes());
    }
  }
  template <class T>
  const T* get(const char* part) const {
    return reinterpret_cast<const T*>(tensors_[program_.find_tensor(part).value().index].get());
  }

 private:
  // Small numbers that depend on the tensor's name and the element; those of ranks' parts are alike.
  static void fill(const Tensor& tensor, std::byte* bytes) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
    constexpr float kScale = 0x1p-9F;
    const uint64_t name = std::hash<std::string>()(tensor.name);
    for (uint64_t e = 0; e < tensor.rows * tensor.cols; ++e) {
      const uint64_t mixed = (e ^ name) * kFactor;
      const float value = kScale * static_cast<float>(static_cast<int>(mixed >> 54) - 512);
      const uint16_t half = float_to_bf16(value);
      if (tensor.dtype == DType::kBF16) std::memcpy(bytes + e * sizeof half, &half, sizeof half);
      if (tensor.dtype == DType::kF32) std::memcpy(bytes + e * sizeof value, &value, sizeof value);
    }
  }

  const Program& program_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> tensors_;
  HostMemory host_;
};

class Conversation {
 public:
  Conversation(const Program& program, const Circumstances& how)
      : program_(program), how_(how), state_(program.limits), memory_(program, how.left_over) {
    std::iota(state_.block_table.begin(), state_.block_table.end(), 0);
    for (SequenceSlot& slot : state_.slots) slot.end_position = program.limits.max_context;
    state_.slots[2].temperature = 1;
  }
  std::vector<Drawn> run();

 private:
  struct Sequence {
    uint32_t slot;
    uint32_t read = 0;  // positions
    std::vector<Drawn> drawn = {};
  };
  // Adds rows of the sequence's prompt, or its last token. Returns how many.
  uint32_t add_rows(const Sequence& sequence, uint32_t row, uint32_t most);
  void launch(std::vector<Sequence*> sequences, uint32_t passes);
  void plan(uint32_t passes);
  bool pools() const { return program_.limits.pooled_cols > 0; }
  float pooled(uint32_t slot) const;
  uint32_t room() const { return std::min(program_.limits.rows, logit_rows(program_.limits)); }

  const Program& program_;
  const Circumstances how_;
  StateBlock state_;
  Memory memory_;
  std::vector<uint32_t> attention_;
};

uint32_t Conversation::add_rows(const Sequence& sequence, uint32_t row, uint32_t most) {
  const uint32_t known = kPrompt + static_cast<uint32_t>(sequence.drawn.size());
  const uint32_t count = std::min(most, known - sequence.read);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t position = sequence.read + i;
    state_.rows[row + i] = {.active = 1,
                            .wants_logits = position + 1 == known ? 1U : 0U,
                            .slot = sequence.slot,
                            .token = position < kPrompt
                                         ? prompt_token(sequence.slot, position, program_.limits.vocab)
                                         : sequence.drawn[position - kPrompt].token,
                            .position = position,
                            .adds = pools() && position + 1 == known && position >= kPrompt ? 1U : 0U};
  }
  return count;
}

void Conversation::plan(uint32_t passes) {
  const std::optional<AttentionPlanShape> shape = attention_plan_shape(program_);
  if (!shape) return;
  attention_.assign(attention_list_bytes(shape->rows) / sizeof(uint32_t), 0);
  plan_attention(
      *shape, std::span(state_.rows.data(), program_.limits.rows),
      [&](const PassRow& row) { return row.position + passes - 1; },
      *reinterpret_cast<AttentionList*>(attention_.data()));
  memory_.put(state_tensor::kAttention, attention_.data());
}

void Conversation::launch(std::vector<Sequence*> sequences, uint32_t passes) {
  std::fill(state_.rows.begin(), state_.rows.end(), PassRow{});
  const auto share = std::max(1U, room() / static_cast<uint32_t>(sequences.size()));
  uint32_t row = 0;
  for (Sequence* s : sequences) {
    if (row == room()) break;
    const uint32_t count = add_rows(*s, row, std::min({how_.chunk, share, room() - row}));
    s->read += count + passes - 1;
    row += count;
  }
  state_.control = {
      .passes_done = 0, .passes_wanted = passes, .last_pass = kKeepRunning, .stopped_by_host = 0};
  memory_.put(state_tensor::kRows, state_.rows.data());
  memory_.put(state_tensor::kControl, &state_.control);
  plan(passes);
  ReplayInterpreter(program_, host_isa(), memory_.host(), how_.interleaving).run({});
  const auto* output = memory_.get<OutputToken>(state_tensor::kOutput);
  for (uint32_t pass = 0; pass < passes; ++pass) {
    for (uint32_t r = 0; r < row; ++r) {
      const OutputToken& token = output[size_t{pass} * program_.limits.rows + r];
      if (token.valid == 0) continue;
      for (Sequence* s : sequences) {
        if (s->slot != token.slot) continue;
        s->drawn.push_back({token.token, pools() ? pooled(s->slot) : token.log_probability});
      }
    }
  }
}

// A sum of the slot's pooled hidden states, in which each has another weight.
float Conversation::pooled(uint32_t slot) const {
  const uint32_t cols = program_.limits.pooled_cols;
  const float* values = memory_.get<float>(state_tensor::kPooled) + size_t{slot} * cols;
  float sum = 0;
  for (uint32_t c = 0; c < cols; ++c) sum += values[c] * static_cast<float>(c + 1);
  return sum;
}

// Neighbours come a pass later, and go a pass earlier; of a row a pass, they have passes between.
std::vector<Drawn> Conversation::run() {
  memory_.put(state_tensor::kSlots, state_.slots.data());
  memory_.put(state_tensor::kAdjustments, state_.adjustments.data());
  memory_.put(state_tensor::kMasks, state_.masks.data());
  memory_.put(state_tensor::kBlockTable, state_.block_table.data());
  Sequence asked{kAsked}, twin{0}, other{2};
  for (uint32_t n = 0; asked.drawn.size() < kTokens; ++n) {
    const auto left = static_cast<uint32_t>(kTokens - asked.drawn.size());
    const bool together = how_.neighbours && n > 0 && left > 1;
    if (together && room() >= kSequences) {
      launch({&twin, &asked, &other}, 1);
    } else {
      if (together) launch({&twin}, 1);
      const bool is_single = asked.read < kPrompt || pools();  // a pass replaces what the last one has pooled
      launch({&asked}, is_single ? 1 : std::min(how_.passes, left));
    }
  }
  return asked.drawn;
}

bool is_small(const Program& program) {
  uint64_t operations = 0;
  for (const Instruction& i : program.instructions)
    operations += op_info(i.opcode)
                      .cost(i, program, program.tensors, {.rows = 1, .context_tokens = kPrompt})
                      .operations;
  return operations <= kMostOperations && program.limits.sequences >= kSequences &&
         program.limits.max_context > kPrompt + kTokens;
}

}  // namespace

std::optional<std::vector<Drawn>> answer_of(const Program& program, const Circumstances& circumstances) {
  if (!is_small(program)) return std::nullopt;
  return Conversation(program, circumstances).run();
}

std::optional<std::string> first_difference_of_answers(const Program& program, uint64_t seed) {
  constexpr std::byte kNan{0xff};
  const Circumstances all[] = {
      {.chunk = 1, .passes = 1, .neighbours = false, .interleaving = 2 * seed},
      {.chunk = 5, .passes = 3, .neighbours = false, .interleaving = 2 * seed + 1, .left_over = kNan},
      {.chunk = 3, .passes = 1, .neighbours = true, .interleaving = 2 * seed + 3, .left_over = kNan},
  };
  std::optional<std::vector<Drawn>> first;
  for (const Circumstances& how : all) {
    std::optional<std::vector<Drawn>> answer = answer_of(program, how);
    if (!answer) return std::nullopt;
    if (!first) first = answer;
    if (*answer != *first)
      return fmt::format("its answer to chunks of {}, launches of {} passes and {} neighbours is another",
                         how.chunk, how.passes, how.neighbours ? 2 : 0);
  }
  return std::nullopt;
}

}  // namespace serval::testing
