// attention() of kernels/attention.h.
#include "kernels/arguments.h"
#include "kernels/attention.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

template <uint32_t kHeadDim, bool kCausal>
void launch(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float scale,
            const AttentionShape& s, cudaStream_t stream) {
  using Kernel = Attention<kHeadDim, kCausal>;
  const auto map = [&](const uint16_t* matrix, uint32_t heads) {
    return make_tensor_map<typename Kernel::Panel>(reinterpret_cast<const Bf16*>(matrix),
                                                   uint64_t{s.batch} * heads * s.length, kHeadDim, kHeadDim);
  };
  constexpr float kLog2E = 1.44269504F;
  pipeline::launch<Kernel>({map(q, s.heads), map(k, s.kv_heads), map(v, s.kv_heads),
                            reinterpret_cast<uint32_t*>(out), s, scale * kLog2E},
                           stream);
}

}  // namespace

void attention(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* out, float scale,
               const AttentionShape& s, cudaStream_t stream) {
  constexpr const char* kName = "attention";
  require(s.head_dim == 64 || s.head_dim == 128, kName,
          "head_dim is " + std::to_string(s.head_dim) + "; it must be 64 or 128");
  require(s.batch > 0 && s.length > 0 && s.kv_heads > 0, kName,
          "batch, length and kv_heads must be at least 1");
  require_multiple(s.heads, s.kv_heads, kName, "heads");
  require(uint64_t{s.batch} * s.heads * s.length < uint64_t{1} << 31, kName,
          "batch * heads * length must be less than 2^31");
  require(scale > 0, kName, "scale must be positive");
  require_aligned(q, kName, "q");
  require_aligned(k, kName, "k");
  require_aligned(v, kName, "v");
  require_aligned(out, kName, "out");
  const auto of_shape = s.head_dim == 64 ? (s.causal ? launch<64, true> : launch<64, false>)
                                         : (s.causal ? launch<128, true> : launch<128, false>);
  of_shape(q, k, v, out, scale, s, stream);
}

}  // namespace serval::kernels
