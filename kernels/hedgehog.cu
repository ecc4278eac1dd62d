// hedgehog_attention() of kernels/linear_attention.h.
#include "kernels/arguments.h"
#include "kernels/hedgehog.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {

void hedgehog_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* q_map,
                        const uint16_t* k_map, uint16_t* out, HedgehogShape shape, cudaStream_t stream) {
  constexpr const char* kName = "hedgehog_attention";
  const auto [batch, tokens, heads] = shape;
  require(batch > 0, kName, "batch is 0; it must be at least 1");
  require(heads > 0, kName, "heads is 0; it must be at least 1");
  require_multiple(tokens, Hedgehog::kChunk, kName, "tokens");
  require(uint64_t{batch} * tokens <= INT32_MAX, kName, "batch * tokens must be less than 2^31");
  require(uint64_t{batch} * heads <= INT32_MAX, kName, "batch * heads must be less than 2^31");
  require(heads <= INT32_MAX / Hedgehog::kDim, kName, "heads * 128 must be less than 2^31");
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(q_map, kName, "q_map");
  require_aligned(k_map, kName, "k_map");
  require_aligned(out, kName, "out");
  const uint64_t rows = uint64_t{batch} * tokens, cols = uint64_t{heads} * Hedgehog::kDim;
  const auto map = [rows, cols](const uint16_t* base) {
    return make_tensor_map<Hedgehog::Panel>(reinterpret_cast<const Bf16*>(base), rows, cols, cols);
  };
  pipeline::launch<Hedgehog>({map(q), map(k), map(v), map(out), reinterpret_cast<const uint4*>(q_map),
                              reinterpret_cast<const uint4*>(k_map), shape},
                             stream);
}

}  // namespace serval::kernels
