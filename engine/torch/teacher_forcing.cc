#include "engine/torch/teacher_forcing.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

// Limits the reference's attention scores: [heads, chunk, positions].
constexpr size_t kOracleChunk = 256;

void check_limit(const char* what, size_t found, size_t most, const char* of) {
  if (found <= most) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("teacher forcing: {} {}; limit: {} ({})", found, what, most, of));
}

void check_fits(Backend& backend, size_t tokens, uint32_t copies) {
  const StateLimits& limits = backend.limits();
  check_limit("sequences", copies, std::min(limits.sequences, limits.rows), "slots, and rows of a pass");
  const size_t blocks_of_copy = limits.kv_blocks / copies;
  check_limit("positions", tokens, std::min<size_t>(limits.max_context, blocks_of_copy * kKvBlockTokens),
              "the context, -c");
}

// Writes slots for sequences of `tokens` tokens, each with its own KV blocks.
void write_slots(Backend& backend, size_t tokens, uint32_t copies) {
  StateBlock& state = backend.state();
  int32_t next_block = 0;
  for (uint32_t slot = 0; slot < copies; ++slot) {
    state.slots[slot] = {};  // greedy; sampled tokens are ignored
    state.slots[slot].end_position = backend.limits().max_context;
    for (int32_t& block : state.blocks_of(slot).first(blocks_for_tokens(static_cast<uint32_t>(tokens))))
      block = next_block++;
  }
}

// A range of tokens: [first, end).
struct Stretch {
  size_t first, end;
  bool has(size_t position) const { return position >= first && position < end; }
  size_t size() const { return end - first; }
};

PassRow row_of(std::span<const int32_t> tokens, size_t position, uint32_t slot, bool wants_logits) {
  return {.active = 1,
          .wants_logits = wants_logits,
          .slot = slot,
          .token = tokens[position],
          .position = static_cast<uint32_t>(position)};
}

// Writes a pass over `read`. Rows that want logits must come first (vm/state/limits.h).
void write_rows(StateBlock& state, std::span<const int32_t> tokens, uint32_t slot, Stretch read,
                Stretch wanted) {
  std::ranges::fill(state.rows, PassRow{});
  size_t next_wanted = 0, next_other = wanted.size();
  for (size_t p = read.first; p < read.end; ++p) {
    const bool is_wanted = wanted.has(p);
    state.rows[is_wanted ? next_wanted++ : next_other++] = row_of(tokens, p, slot, is_wanted);
  }
}

// A copy's position in a pass.
size_t position_of(uint32_t copy, size_t pass, size_t tokens) {
  return (pass + copy) % tokens;
}

// Reads the tokens before the first one that each copy decodes, in the arithmetic class of the decoding
// passes (engine/compile/program_set.h): vectors if these have few rows.
void read_beginnings(Backend& backend, std::span<const int32_t> tokens, uint32_t copies) {
  for (uint32_t copy = 0; copy < copies; ++copy) {
    const size_t end = position_of(copy, 0, tokens.size());
    if (end == 0) continue;
    write_rows(backend.state(), tokens, copy, {0, end}, {0, 0});
    backend.run({.passes = 1, .reads_prompts = copies > kDefaultRows}, {});
  }
}

void decode(Backend& backend, std::span<const int32_t> tokens, uint32_t copies, size_t pass) {
  StateBlock& state = backend.state();
  std::ranges::fill(state.rows, PassRow{});
  for (uint32_t copy = 0; copy < copies; ++copy)
    state.rows[copy] = row_of(tokens, position_of(copy, pass, tokens.size()), copy, true);
  backend.run({.passes = 1}, {});
}

}  // namespace

std::vector<float> teacher_force(Backend& backend, std::span<const int32_t> tokens,
                                 const TeacherProgress& progress) {
  constexpr uint32_t kSlot = 0;
  check_fits(backend, tokens.size(), 1);
  write_slots(backend, tokens.size(), 1);
  std::vector<float> logits;
  logits.reserve(tokens.size() * backend.limits().vocab);
  const size_t rows = backend.limits().rows, wanting = logit_rows(backend.limits());
  for (size_t first = 0; first < tokens.size(); first += rows) {
    const Stretch read{first, std::min(tokens.size(), first + rows)};
    // Runs again for each range that wants logits; the KV cache gets the same values each time.
    for (Stretch wanted{first, first}; wanted.end < read.end;) {
      wanted = {wanted.end, std::min(read.end, wanted.end + wanting)};
      write_rows(backend.state(), tokens, kSlot, read, wanted);
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

DecodedCopies decode_copies(Backend& backend, std::span<const int32_t> tokens, uint32_t copies,
                            const TeacherProgress& progress) {
  check_fits(backend, tokens.size(), copies);
  write_slots(backend, tokens.size(), copies);
  read_beginnings(backend, tokens, copies);
  const size_t vocab = backend.limits().vocab;
  DecodedCopies out{.logits = std::vector<float>(tokens.size() * vocab)};
  std::vector<bool> is_known(tokens.size());
  for (size_t pass = 0; pass < tokens.size(); ++pass) {
    decode(backend, tokens, copies, pass);
    for (uint32_t copy = 0; copy < copies; ++copy) {
      const size_t position = position_of(copy, pass, tokens.size());
      const std::span<const float> row = backend.logits(static_cast<int>(copy));
      const std::span<float> known = std::span(out.logits).subspan(position * vocab, vocab);
      if (!is_known[position]) std::ranges::copy(row, known.begin());
      if (std::memcmp(row.data(), known.data(), known.size_bytes()) != 0) ++out.different;
      is_known[position] = true;
    }
    if (progress) progress(pass + 1, tokens.size());
  }
  return out;
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
