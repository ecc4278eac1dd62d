// The GPU code of docs/add_an_instruction.md compiles for kernels of vectors and of tiles.
#include "instructions/scale_query/device.cuh"

namespace serval::device {
namespace {

template <bool kTiles>
struct Config {
  static constexpr bool kMultipliesTiles = kTiles;
};

template <bool kTiles>
__device__ void run_in_range(const ScaleQuery& op, const Group& group) {
  if (in_range_for<Config<kTiles>, DeviceOp<ScaleQuery>>(op, group.shape))
    run_group<Config<kTiles>>(op, group);
}

}  // namespace

__global__ void scale_query_example(const ScaleQuery* op, const Group* group) {
  run_in_range<false>(*op, *group);
  run_in_range<true>(*op, *group);
}

}  // namespace serval::device
