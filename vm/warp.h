// The shape of a warp, for all GPU code.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kWarpThreads = 32;
// Lane mask of a warp's collective operations that all lanes take part in.
inline constexpr uint32_t kAllLanes = 0xffffffff;

}  // namespace serval
