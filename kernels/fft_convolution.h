// Long convolutions on a Hopper GPU, by Fourier transforms on the tensor cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// x and y [batch, heads, length] in bf16 (bit patterns). length is 1,024 or 4,096; any batch and heads of at
// least 1.
struct FftConvolutionShape {
  uint32_t batch, heads, length;
};

// Elements of a packed filter for each head, whatever the length: 4,096 pairs of bf16.
inline constexpr size_t kPackedFilterElements = 4096;

// Packs filters for fft_convolution(), once for each set of them. spectrum [heads, length / 2 + 1, 2] in
// fp32: the Fourier transform of each real filter of `length` elements, real and imaginary parts, as
// torch.fft.rfft gives it. packed [heads, kPackedFilterElements].
void pack_filter(const float* spectrum, uint32_t* packed, uint32_t heads, uint32_t length,
                 cudaStream_t stream);

// y = x ∗ the head's filter, circular: y_n = Σ_m filter_m x_{(n - m) mod length}. For a causal convolution
// the second half of x and of the filter is 0. Sums in fp32; the roots of unity of the matrices, the filter's
// spectrum and what is between two products are rounded to bf16: the error is about 1/256 of the results'
// root mean square. y may be x.
//
// Monarch's decomposition (Fu et al., "FlashFFTConv", 2023): a transform of length R × 64 is one of R, a
// multiplication by roots of unity, and one of 64, both transforms as products of matrices. R is 64 for 4,096
// and 16 for 1,024. Two sequences, of two batch entries, are the real and the imaginary part of one.
//
// All in GPU memory, contiguous, at multiples of 16 bytes. Both functions begin in `stream` and throw Error:
// kUsage for arguments that break these rules, kRuntime if CUDA refuses. The same input gives the same bits.
void fft_convolution(const uint16_t* x, const uint32_t* packed, uint16_t* y, FftConvolutionShape shape,
                     cudaStream_t stream);

}  // namespace serval::kernels
