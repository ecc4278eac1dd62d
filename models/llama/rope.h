// The RoPE table: programs read cosines and sines from it instead of computing angles.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llama/config.h"

namespace serval {

// Radians per position for each pair of a head's elements: head_dim / 2 values, divided by rope_divisors and
// scaled by rope_scaling. Computed in double and rounded once. Formulas: transformers 5.23,
// modeling_rope_utils.py; for rope_divisors, ggml's rope with frequency factors.
std::vector<float> rope_inverse_frequencies(const LlamaConfig& config);

// [positions, head_dim]: for each position the cosines of its head_dim / 2 angles, then their sines. An angle
// is the fp32 product of position and inverse frequency, as in transformers. Cosine and sine are rounded to
// fp32, then multiplied in fp32 by rope_attention_factor.
std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions);

}  // namespace serval
