// Reference product on the GPU in fp32, one thread an output, and comparisons. Sums of small integers are
// exact.
#pragma once

#include "tests/device/tile_test.cuh"

namespace serval::testing {

// On the GPU, where from_float() and fp16's conversion of the host do not run.
template <class T>
__device__ float element_value(T v) {
  if constexpr (std::is_same_v<T, E4m3>) {
    return e4m3_to_float(v.bits);
  } else if constexpr (std::is_same_v<T, Fp16>) {
    return fp16_to_float(v.bits);
  } else {
    return bf16_to_float(v.bits);
  }
}
// c[m, n] = Σ a[m, k] b[n, k]
template <class T>
__global__ void multiply_plainly(const T* a, const T* b, float* c, uint32_t m, uint32_t n, uint32_t k) {
  const uint32_t col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (row >= m || col >= n) return;
  float sum = 0;
  for (uint32_t i = 0; i < k; ++i)
    sum += element_value(a[size_t{row} * k + i]) * element_value(b[size_t{col} * k + i]);
  c[size_t{row} * n + col] = sum;
}
template <class T>
std::vector<float> plain_product(const T* a, const T* b, uint32_t m, uint32_t n, uint32_t k) {
  constexpr uint32_t kThreads = 128;
  const DeviceArray<float> c(size_t{m} * n);
  multiply_plainly<<<dim3((n + kThreads - 1) / kThreads, m), kThreads>>>(a, b, c.data(), m, n, k);
  SERVAL_CUDA_CHECK(cudaGetLastError());
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  return c.download();
}

// Integers from -most to most.
template <class T>
std::vector<T> small_integers(size_t count, uint32_t most, Random& random) {
  std::vector<T> out(count);
  for (T& v : out)
    v = from_float<T>(static_cast<float>(random.between(0, 2 * most)) - static_cast<float>(most));
  return out;
}
template <class T>
std::vector<T> random_numbers(size_t count, double most, Random& random) {
  std::vector<T> out(count);
  for (T& v : out) v = from_float<T>(static_cast<float>(random.real(-most, most)));
  return out;
}

// A kernel's bf16 results in GPU memory, and elements after them that must stay as they are.
class GuardedResults {
 public:
  explicit GuardedResults(size_t count) : GuardedResults(std::vector<uint16_t>(count, kCanary)) {}
  // `before`: what the results are before the kernel writes them.
  explicit GuardedResults(std::vector<uint16_t> before) : count_(before.size()) {
    before.resize(count_ + kGuard, kCanary);
    memory_ = DeviceArray<uint16_t>(std::span<const uint16_t>(before));
  }
  uint16_t* data() const { return memory_.data(); }
  // Waits for the kernel.
  std::vector<uint16_t> take() const {
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<uint16_t> out = memory_.download();
    for (size_t i = count_; i < out.size(); ++i) {
      if (out[i] == kCanary) continue;
      ADD_FAILURE() << "element " << i - count_ << " after the results was written";
      break;
    }
    out.resize(count_);
    return out;
  }

 private:
  static constexpr uint16_t kCanary = 0x7FC1;  // a NaN
  static constexpr size_t kGuard = 4096;
  size_t count_;
  DeviceArray<uint16_t> memory_;
};

// Expects bf16 results within `relative` of the value, or `absolute`; both 0: the nearest bf16.
template <class F>
void expect_bf16(const std::vector<uint16_t>& got, F&& want, float relative, float absolute) {
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const float v = bf16_to_float(got[i]), w = want(i);
    const bool right = relative == 0 && absolute == 0
                           ? got[i] == float_to_bf16(w) || v == bf16_to_float(float_to_bf16(w))
                           : std::abs(v - w) <= absolute + relative * std::abs(w);
    if (!right && wrong++ == 0) ADD_FAILURE() << "element " << i << " is " << v << ", not " << w;
  }
  EXPECT_EQ(wrong, 0U) << "of " << got.size() << " elements";
}

}  // namespace serval::testing
