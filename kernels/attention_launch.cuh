// Host side of attention(): checks, and the tensor maps.
#pragma once

#include "kernels/attention.cuh"
#include "kernels/attention_arguments.h"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {

template <uint32_t kHeadDim, bool kCausal, uint32_t kConsumers>
void launch_attention_of(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                         float* log_sums, float scale, const AttentionShape& s, cudaStream_t stream) {
  using Kernel = Attention<kHeadDim, kCausal, kConsumers>;
  const auto map = [&]<class Panel>(std::type_identity<Panel>, const uint16_t* matrix, uint32_t heads) {
    return make_tensor_map<Panel>(reinterpret_cast<const Bf16*>(matrix), uint64_t{s.batch} * heads * s.length,
                                  kHeadDim, kHeadDim);
  };
  const std::type_identity<typename Kernel::Queries::Panel> queries;
  const std::type_identity<typename Kernel::Tile::Panel> keys;
  pipeline::launch<Kernel>({map(queries, q, s.heads), map(keys, k, s.kv_heads), map(keys, v, s.kv_heads),
                            reinterpret_cast<Bf16*>(out), log_sums, s, scale * kLog2E},
                           stream);
}

// With so many warpgroups that compute for heads of 64; two for heads of 128.
template <uint32_t kConsumersOf64>
void launch_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
                      float scale, const AttentionShape& s, cudaStream_t stream) {
  constexpr const char* kName = "attention";
  check_attention(kName, s, scale);
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  if (log_sums != nullptr) require_aligned(log_sums, kName, "log_sums");
  const auto of_64 = s.causal ? launch_attention_of<64, true, kConsumersOf64>
                              : launch_attention_of<64, false, kConsumersOf64>;
  const auto of_128 = s.causal ? launch_attention_of<128, true, 2> : launch_attention_of<128, false, 2>;
  (s.head_dim == 64 ? of_64 : of_128)(q, k, v, out, log_sums, scale, s, stream);
}

}  // namespace serval::kernels
