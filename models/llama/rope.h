// The RoPE table that programs read instead of computing angles.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llama/config.h"

namespace serval {

// Radians a position for each pair of a head's elements: head_dim / 2 values, divided by rope_divisors and
// scaled where the model has that. Computed in double, rounded once; the formulas are those of transformers
// 5.23, modeling_rope_utils.py, and for rope_divisors that of ggml's rope with frequency factors.
std::vector<float> rope_inverse_frequencies(const LlamaConfig& config);

// [positions, head_dim]: the cosines of a position's head_dim / 2 angles, then their sines. The angle is the
// fp32 product of position and inverse frequency, as transformers computes it; its cosine and sine are
// rounded once, and then multiplied in fp32 by rope_attention_factor.
std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions);

}  // namespace serval
