// based_attention() of kernels/linear_attention.h.
#include "kernels/arguments.h"
#include "kernels/linear_attention.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {

void based_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, BasedShape shape,
                     cudaStream_t stream) {
  constexpr const char* kName = "based_attention";
  const auto [batch, tokens, heads] = shape;
  require(batch > 0, kName, "batch is 0; it must be at least 1");
  require_multiple(tokens, Based::kChunk, kName, "tokens");
  require_multiple(heads, Based::kHeadsOfPanel, kName, "heads");
  require(uint64_t{batch} * tokens <= INT32_MAX, kName, "batch * tokens must be less than 2^31");
  require(uint64_t{batch} * heads <= INT32_MAX, kName, "batch * heads must be less than 2^31");
  require(heads <= INT32_MAX / 64, kName, "heads * 64 must be less than 2^31");
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  const uint64_t rows = uint64_t{batch} * tokens;
  const auto map = [rows](const uint16_t* base, uint64_t cols) {
    return make_tensor_map<Based::Panel>(reinterpret_cast<const Bf16*>(base), rows, cols, cols);
  };
  const uint64_t features = uint64_t{heads} * Based::kDim, values = uint64_t{heads} * 64;
  pipeline::launch<Based>({map(q, features), map(k, features), map(v, values), map(out, values), shape},
                          stream);
}

}  // namespace serval::kernels
