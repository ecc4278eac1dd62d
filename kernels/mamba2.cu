// mamba2() of kernels/mamba2.h.
#include "kernels/arguments.h"
#include "kernels/mamba2.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

constexpr const char* kName = "mamba2";

void check(const Mamba2Shape& shape) {
  require(shape.batch > 0, kName, "batch is 0; it must be at least 1");
  require_multiple(shape.tokens, Mamba2<64>::kChunk, kName, "tokens");
  require(shape.state == 64 || shape.state == 128, kName,
          "state is " + std::to_string(shape.state) + "; it must be 64 or 128");
  require(shape.groups > 0, kName, "groups is 0; it must be at least 1");
  require_multiple(shape.heads, 2 * uint64_t{shape.groups}, kName, "heads");
  require(uint64_t{shape.batch} * shape.tokens <= INT32_MAX, kName, "batch * tokens must be less than 2^31");
  require(uint64_t{shape.batch} * shape.heads <= INT32_MAX, kName, "batch * heads must be less than 2^31");
  require(shape.heads <= INT32_MAX / 128, kName, "heads * 128 must be less than 2^31");
}

template <int kState>
void launch(const uint16_t* c, const uint16_t* b, const uint16_t* x, const float* log_decay, uint16_t* y,
            const Mamba2Shape& shape, cudaStream_t stream) {
  using Kernel = Mamba2<kState>;
  const uint64_t rows = uint64_t{shape.batch} * shape.tokens;
  const auto map = [rows](const uint16_t* base, uint64_t cols) {
    return make_tensor_map<typename Kernel::Panel>(reinterpret_cast<const Bf16*>(base), rows, cols, cols);
  };
  const uint64_t vectors = uint64_t{shape.groups} * kState, values = uint64_t{shape.heads} * Kernel::kDim;
  pipeline::launch<Kernel>(
      {map(c, vectors), map(b, vectors), map(x, values), map(y, values), log_decay, shape}, stream);
}

}  // namespace

void mamba2(const uint16_t* c, const uint16_t* b, const uint16_t* x, const float* log_decay, uint16_t* y,
            Mamba2Shape shape, cudaStream_t stream) {
  check(shape);
  require_aligned(c, kName, "c");
  require_aligned(b, kName, "b");
  require_aligned(x, kName, "x");
  require_aligned(log_decay, kName, "log_decay");
  require_aligned(y, kName, "y");
  (shape.state == 64 ? launch<64> : launch<128>)(c, b, x, log_decay, y, shape, stream);
}

}  // namespace serval::kernels
