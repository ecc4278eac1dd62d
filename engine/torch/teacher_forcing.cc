#include "engine/torch/teacher_forcing.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

constexpr uint32_t kSlot = 0;
// Bounds the reference's attention scores: [heads, chunk, positions].
constexpr size_t kOracleChunk = 256;

void check_fits(Backend& backend, size_t tokens) {
  const StateLimits& limits = backend.limits();
  const size_t most = std::min<size_t>(limits.max_context, size_t{limits.kv_blocks} * kKvBlockTokens);
  if (tokens <= most) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("teacher forcing: {} positions; limit: {} (the context, -c)", tokens, most));
}

// Of the tokens: [first, end).
struct Stretch {
  size_t first, end;
  bool has(size_t position) const { return position >= first && position < end; }
  size_t size() const { return end - first; }
};

// A pass over `read`. The rows of those that want logits come first: no others may (vm/state/limits.h).
void write_rows(StateBlock& state, std::span<const int32_t> tokens, Stretch read, Stretch wanted) {
  std::ranges::fill(state.rows, PassRow{});
  size_t next_wanted = 0, next_other = wanted.size();
  for (size_t p = read.first; p < read.end; ++p) {
    const bool wants_logits = wanted.has(p);
    state.rows[wants_logits ? next_wanted++ : next_other++] = {.active = 1,
                                                               .wants_logits = wants_logits,
                                                               .slot = kSlot,
                                                               .token = tokens[p],
                                                               .position = static_cast<uint32_t>(p)};
  }
}

}  // namespace

std::vector<float> teacher_force(Backend& backend, std::span<const int32_t> tokens,
                                 const TeacherProgress& progress) {
  check_fits(backend, tokens.size());
  StateBlock& state = backend.state();
  state.slots[kSlot] = {};  // greedy; what is sampled is not looked at
  state.slots[kSlot].end_position = backend.program().limits.max_context;
  const std::span<int32_t> blocks =
      state.blocks_of(kSlot).first(blocks_for_tokens(static_cast<uint32_t>(tokens.size())));
  std::iota(blocks.begin(), blocks.end(), 0);

  std::vector<float> logits;
  logits.reserve(tokens.size() * backend.program().limits.vocab);
  const size_t rows = backend.limits().rows, wanting = logit_rows(backend.limits());
  for (size_t first = 0; first < tokens.size(); first += rows) {
    const Stretch read{first, std::min(tokens.size(), first + rows)};
    // Again for each stretch that wants logits; the KV cache gets the same values each time.
    for (Stretch wanted{first, first}; wanted.end < read.end;) {
      wanted = {wanted.end, std::min(read.end, wanted.end + wanting)};
      write_rows(state, tokens, read, wanted);
      backend.run({.passes = 1, .reads_prompts = true}, {});
      for (size_t r = 0; r < wanted.size(); ++r) {
        const std::span<const float> row = backend.logits(static_cast<int>(r));
        logits.insert(logits.end(), row.begin(), row.end());
      }
      if (progress) progress(wanted.end, tokens.size());
    }
  }
  return logits;
}

std::vector<float> teacher_force(Oracle& oracle, std::span<const int32_t> tokens, size_t vocab,
                                 const TeacherProgress& progress) {
  std::vector<int64_t> cells(tokens.size());
  std::iota(cells.begin(), cells.end(), 0);
  std::vector<float> logits(tokens.size() * vocab);
  for (size_t first = 0; first < tokens.size(); first += kOracleChunk) {
    const size_t count = std::min(kOracleChunk, tokens.size() - first);
    oracle.forward({tokens.subspan(first, count), std::span(cells).first(first + count), count},
                   std::span(logits).subspan(first * vocab, count * vocab));
    if (progress) progress(first + count, tokens.size());
  }
  return logits;
}

}  // namespace serval
