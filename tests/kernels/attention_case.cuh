// Inputs of attention, and results with guards after them, for the tests of both directions.
#pragma once

#include "kernels/attention.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {

// An array of `count` results on the GPU. The elements after them must stay as they are.
template <class T>
class GuardedArray {
  static constexpr T kCanary = std::is_same_v<T, float> ? T{12345} : T{0x7FC1};  // 0x7FC1: a NaN in bf16
  static constexpr size_t kGuard = 4096;

 public:
  explicit GuardedArray(size_t count)
      : count_(count), array_(std::span<const T>(std::vector<T>(count + kGuard, kCanary))) {}
  T* data() const { return array_.data(); }
  std::vector<T> download() const {
    std::vector<T> got = array_.download();
    size_t wrong = 0;
    for (size_t i = count_; i < got.size(); ++i) wrong += got[i] != kCanary ? 1 : 0;
    EXPECT_EQ(wrong, 0U) << "elements after the results were written";
    got.resize(count_);
    return got;
  }

 private:
  size_t count_;
  DeviceArray<T> array_;
};

inline const uint16_t* words(const DeviceArray<tiles::Bf16>& of) {
  return reinterpret_cast<const uint16_t*>(of.data());
}

struct AttentionCase {
  kernels::AttentionShape shape;
  float scale;
  DeviceArray<tiles::Bf16> q, k, v;

  // Scores have a deviation of `spread` about.
  AttentionCase(const kernels::AttentionShape& s, double spread, Random& random)
      : shape(s),
        scale(static_cast<float>(spread * 3 / std::sqrt(s.head_dim))),
        q(make(s.heads, random)),
        k(make(s.kv_heads, random)),
        v(make(s.kv_heads, random)) {}
  DeviceArray<tiles::Bf16> make(uint32_t heads, Random& random) const {
    const std::vector<tiles::Bf16> all = random_numbers<tiles::Bf16>(elements(heads), 1, random);
    return DeviceArray<tiles::Bf16>(std::span<const tiles::Bf16>(all));
  }
  // Elements of a matrix of so many heads; rows of queries.
  size_t elements(uint32_t heads) const {
    return size_t{shape.batch} * heads * shape.length * shape.head_dim;
  }
  size_t rows() const { return size_t{shape.batch} * shape.heads * shape.length; }
  std::string name() const {
    return std::to_string(shape.batch) + " x " + std::to_string(shape.heads) + " heads (" +
           std::to_string(shape.kv_heads) + ") of " + std::to_string(shape.head_dim) + ", length " +
           std::to_string(shape.length) + (shape.causal ? ", causal" : "");
  }
};

}  // namespace serval::testing
