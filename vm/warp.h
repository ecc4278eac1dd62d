// The shape of a warp, for everything that runs on a GPU.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kWarpThreads = 32;
// The mask of a warp's collective operations in which all lanes take part.
inline constexpr uint32_t kAllLanes = 0xffffffff;

}  // namespace serval
