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

// The tokens of a pass: [first, first + count).
void write_rows(StateBlock& state, std::span<const int32_t> tokens, size_t first, size_t count) {
  std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
  for (size_t r = 0; r < count; ++r) {
    PassRow& row = state.rows[r];
    row.active = 1;
    row.wants_logits = 1;
    row.slot = kSlot;
    row.token = tokens[first + r];
    row.position = static_cast<uint32_t>(first + r);
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
  const size_t rows = logit_rows(backend.limits());  // all want logits
  for (size_t first = 0; first < tokens.size(); first += rows) {
    const size_t end = std::min(tokens.size(), first + rows);
    write_rows(state, tokens, first, end - first);
    backend.run({.passes = 1}, {});
    for (size_t p = first; p < end; ++p) {
      const std::span<const float> row = backend.logits(static_cast<int>(p - first));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    if (progress) progress(end, tokens.size());
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
