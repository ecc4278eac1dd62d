// Host side of attention(): checks, and the tensor maps.
#pragma once

#include "kernels/attention.cuh"
#include "kernels/attention_arguments.h"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {

template <class Kernel, uint32_t kHeadDim>
void launch_attention_of(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out,
                         float* log_sums, float scale, const AttentionShape& s, cudaStream_t stream) {
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

// Heads of 64: with so many warpgroups that compute, and blocks of so many keys.
template <uint32_t kConsumersOf64, uint32_t kKeysOf64 = 128, bool kWaitsAfter = true>
void launch_attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
                      float scale, const AttentionShape& s, cudaStream_t stream) {
  constexpr const char* kName = "attention";
  check_attention(kName, s, scale);
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  if (log_sums != nullptr) require_aligned(log_sums, kName, "log_sums");
  const auto of_64 = [&]<bool kCausal>() {
    using Kernel = Attention<64, kCausal, kConsumersOf64, kKeysOf64, kWaitsAfter>;
    launch_attention_of<Kernel, 64>(q, k, v, out, log_sums, scale, s, stream);
  };
  const auto of_128 = [&]<bool kCausal>() {
    using Kernel = Attention<128, kCausal, 2, 128, kWaitsAfter>;
    launch_attention_of<Kernel, 128>(q, k, v, out, log_sums, scale, s, stream);
  };
  if (s.head_dim == 64)
    return s.causal ? of_64.template operator()<true>() : of_64.template operator()<false>();
  s.causal ? of_128.template operator()<true>() : of_128.template operator()<false>();
}

}  // namespace serval::kernels
