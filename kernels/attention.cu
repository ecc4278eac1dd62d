// attention() of kernels/attention.h.
#include "kernels/attention.cuh"
#include "kernels/attention_arguments.h"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

template <uint32_t kHeadDim, bool kCausal>
void launch(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
            float scale, const AttentionShape& s, cudaStream_t stream) {
  using Kernel = Attention<kHeadDim, kCausal>;
  const auto map = [&](const uint16_t* matrix, uint32_t heads) {
    return make_tensor_map<typename Kernel::Panel>(reinterpret_cast<const Bf16*>(matrix),
                                                   uint64_t{s.batch} * heads * s.length, kHeadDim, kHeadDim);
  };
  pipeline::launch<Kernel>({map(q, s.heads), map(k, s.kv_heads), map(v, s.kv_heads),
                            reinterpret_cast<Bf16*>(out), log_sums, s, scale * kLog2E},
                           stream);
}

}  // namespace

void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float* log_sums,
               float scale, const AttentionShape& s, cudaStream_t stream) {
  constexpr const char* kName = "attention";
  check_attention(kName, s, scale);
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  if (log_sums != nullptr) require_aligned(log_sums, kName, "log_sums");
  const auto of_shape = s.head_dim == 64 ? (s.causal ? launch<64, true> : launch<64, false>)
                                         : (s.causal ? launch<128, true> : launch<128, false>);
  of_shape(q, k, v, out, log_sums, scale, s, stream);
}

}  // namespace serval::kernels
