// attention_backward() of kernels/attention.h.
#include "kernels/attention_arguments.h"
#include "kernels/attention_backward.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

uint32_t padded_length(const AttentionShape& s) {
  return blocks_of(s.length, kBackwardRows) * kBackwardRows;
}
size_t padded_rows(const AttentionShape& s) {
  return size_t{s.batch} * s.heads * padded_length(s);
}

template <uint32_t kHeadDim>
void prepare(const AttentionGradients& a, const QueryNumbers& to, const AttentionShape& s,
             cudaStream_t stream) {
  constexpr uint32_t kThreads = 256, kRowsOfBlock = kThreads / (kHeadDim / Segment::kElements);
  const BackwardPreparation preparation{reinterpret_cast<const uint4*>(a.out),
                                        reinterpret_cast<const uint4*>(a.d_out),
                                        a.log_sums,
                                        to,
                                        s.batch * s.heads,
                                        s.length,
                                        padded_length(s)};
  const auto blocks = static_cast<uint32_t>((padded_rows(s) + kRowsOfBlock - 1) / kRowsOfBlock);
  tiles::launch(prepare_backward<kHeadDim>, {.blocks = blocks, .threads = kThreads}, preparation, stream);
}

template <uint32_t kHeadDim, bool kCausal>
void launch(const AttentionGradients& a, float* scratch, float scale, const AttentionShape& s,
            cudaStream_t stream) {
  using OfKeys = AttentionBackward<kHeadDim, kCausal, true>;
  using OfQueries = AttentionBackward<kHeadDim, kCausal, false>;
  const auto map = [&](const uint16_t* matrix, uint32_t heads) {
    return make_tensor_map<typename OfKeys::Panel>(reinterpret_cast<const Bf16*>(matrix),
                                                   uint64_t{s.batch} * heads * s.length, kHeadDim, kHeadDim);
  };
  const auto bf16 = [](uint16_t* matrix) { return reinterpret_cast<Bf16*>(matrix); };
  const auto q = map(a.q, s.heads), k = map(a.k, s.kv_heads), v = map(a.v, s.kv_heads),
             d_out = map(a.d_out, s.heads);
  const QueryNumbers numbers{scratch, scratch + padded_rows(s)};
  prepare<kHeadDim>(a, numbers, s, stream);
  pipeline::launch<OfKeys>({k, v, q, d_out, numbers, bf16(a.dk), bf16(a.dv), s, scale}, stream);
  pipeline::launch<OfQueries>({q, d_out, k, v, numbers, bf16(a.dq), nullptr, s, scale}, stream);
}

}  // namespace

size_t attention_backward_scratch(const AttentionShape& shape) {
  return 2 * padded_rows(shape);
}
void attention_backward(const AttentionGradients& arguments, float* scratch, float scale,
                        const AttentionShape& s, cudaStream_t stream) {
  constexpr const char* kName = "attention_backward";
  check_attention(kName, s, scale);
  require(padded_rows(s) < size_t{1} << 31, kName,
          "batch * heads * length, rounded up to 128, must be less than 2^31");
  require_aligned(arguments.q, kName, "q");
  require_aligned(arguments.k, kName, "k");
  require_aligned(arguments.v, kName, "v");
  require_aligned(arguments.out, kName, "out");
  require_aligned(arguments.d_out, kName, "d_out");
  require_aligned(arguments.log_sums, kName, "log_sums");
  require_aligned(arguments.dq, kName, "dq");
  require_aligned(arguments.dk, kName, "dk");
  require_aligned(arguments.dv, kName, "dv");
  require_aligned(scratch, kName, "scratch");
  const auto of_shape = s.head_dim == 64 ? (s.causal ? launch<64, true> : launch<64, false>)
                                         : (s.causal ? launch<128, true> : launch<128, false>);
  of_shape(arguments, scratch, scale, s, stream);
}

}  // namespace serval::kernels
