// A bit set that grows when a bit is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace serval {

class Bitset {
 public:
  bool test(size_t bit) const {
    return bit / kBits < words_.size() && ((words_[bit / kBits] >> (bit % kBits)) & 1) != 0;
  }
  void set(size_t bit) {
    if (bit / kBits >= words_.size()) words_.resize(bit / kBits + 1, 0);
    words_[bit / kBits] |= uint64_t{1} << (bit % kBits);
  }
  void merge(const Bitset& other) {
    if (other.words_.size() > words_.size()) words_.resize(other.words_.size(), 0);
    for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }

  size_t bytes() const { return words_.size() * sizeof(uint64_t); }

  friend bool operator==(const Bitset&, const Bitset&) = default;

 private:
  static constexpr size_t kBits = 64;
  std::vector<uint64_t> words_;
};

}  // namespace serval
