// Host side of attention(): checks, and the tensor maps.
#include "kernels/attention.cuh"
#include "kernels/attention_arguments.h"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

template <uint32_t kHeadDim, bool kCausal>
void launch(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
            float scale, const AttentionShape& s, cudaStream_t stream) {
  using Kernel = Attention<kHeadDim, kCausal>;
  const float exponents = scale * kLog2E;
  const auto map = [&]<class Panel>(std::type_identity<Panel>, const uint16_t* matrix, uint32_t heads) {
    return make_tensor_map<Panel>(reinterpret_cast<const Bf16*>(matrix), uint64_t{s.batch} * heads * s.length,
                                  kHeadDim, kHeadDim);
  };
  const std::type_identity<typename Kernel::Queries::Panel> queries;
  const std::type_identity<typename Kernel::Tile::Panel> keys;
  pipeline::launch<Kernel>(
      {map(queries, q, s.heads), map(keys, k, s.kv_heads), map(keys, v, s.kv_heads),
       reinterpret_cast<Bf16*>(out), log_sums, s, exponents, Kernel::kMostExponent / exponents},
      stream);
}

}  // namespace

void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
               float scale, const AttentionShape& shape, cudaStream_t stream) {
  constexpr const char* kName = "attention";
  check_attention(kName, shape, scale);
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  if (log_sums != nullptr) require_aligned(log_sums, kName, "log_sums");
  const auto of_head = [&]<uint32_t kHeadDim>() {
    const auto begin = shape.causal ? launch<kHeadDim, true> : launch<kHeadDim, false>;
    begin(q, k, v, out, log_sums, scale, shape, stream);
  };
  shape.head_dim == 64 ? of_head.template operator()<64>() : of_head.template operator()<128>();
}

}  // namespace serval::kernels
