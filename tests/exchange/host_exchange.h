// The program of engine/exchange on the host's threads, with the weights that a GPU gets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vm/program.h"

namespace serval::testing {

// Of a matrix or vector of weights of a rank, row by row.
std::vector<uint16_t> exchange_weights(const Tensor& tensor);

class HostExchange {
 public:
  explicit HostExchange(const Program& program);
  // A launch of one pass. Returns the passes run.
  uint32_t run();
  template <class T>
  const T* data(const std::string& tensor, uint32_t rank) const {
    return reinterpret_cast<const T*>(memory_[program_.find_tensor(tensor, rank).value().index].data());
  }

 private:
  const Program& program_;
  std::vector<std::vector<std::byte>> memory_;  // of each tensor
};

}  // namespace serval::testing
