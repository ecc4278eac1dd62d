// The RoPE table that programs read instead of computing angles.
#pragma once

#include <cstdint>
#include <vector>

#include "models/checkpoint/config.h"

namespace serval {

// [positions, head_dim]: the cosines of a position's head_dim / 2 angles, then their sines. The angle is the
// fp32 product of position and inverse frequency, as transformers computes it; its cosine and sine are
// rounded once.
std::vector<float> make_rope_table(const LlamaConfig& config, uint32_t positions);

}  // namespace serval
