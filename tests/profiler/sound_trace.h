// Checks that every trace must pass: the host's, the GPU's and the simulator's.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

#include "profiler/analysis/slices.h"
#include "profiler/trace/trace.h"
#include "vm/program.h"
#include "vm/stored_bytes.h"

namespace serval::testing {

// The trace must have `tokens` tokens, each instruction once in each, no role of an SM in two states at once,
// and for each role of each SM, times of states that add up to the token's time.
inline void expect_sound(const Trace& trace, size_t tokens) {
  check_trace(trace, "recorded");
  EXPECT_EQ(trace.windows.size(), tokens);
  const std::vector<Slice> slices = slices_of(trace);
  for (size_t s = 1; s < slices.size(); ++s) {
    const bool same = slices[s].sm == slices[s - 1].sm && slices[s].role == slices[s - 1].role;
    ASSERT_TRUE(!same || slices[s].begin_ns >= slices[s - 1].end_ns) << "slice " << s;
  }
  for (const PassWindow& window : trace.windows) {
    for (const StateTimes& times : state_times(trace, slices, window)) {
      int64_t sum = 0;
      for (const int64_t t : times) {
        ASSERT_GE(t, 0);
        sum += t;
      }
      ASSERT_EQ(sum, window.length_ns());
    }
  }
}

// For a program that multiplies with vectors and uses its embedding as the LM head's weights: in each token,
// the loaded pages are those of all weights.
inline void expect_each_weight_to_be_read_once(const Trace& trace, const Program& program) {
  uint64_t weights = 0;
  for (const Tensor& t : program.tensors) {
    if (t.image == Image::kPages) weights += stored_bytes(t);
  }
  std::map<uint32_t, uint64_t> streamed;  // by pass
  for (const Execution& x : trace.executions) {
    if (x.has(EventKind::kLastLanded)) streamed[x.pass] += x.bytes;
  }
  for (const PassWindow& window : trace.windows)
    EXPECT_EQ(streamed[window.pass], weights) << "pass " << window.pass;
}

}  // namespace serval::testing
