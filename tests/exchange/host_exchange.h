// Runs programs of benchmarks/exchange on the host's threads, with the same weights as on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vm/program.h"

namespace serval::testing {

// A rank's matrix or vector of weights, row by row.
std::vector<uint16_t> exchange_weights(const Tensor& tensor);

class HostExchange {
 public:
  explicit HostExchange(const Program& program);
  // Runs a launch of one pass. Returns the number of passes run.
  uint32_t run();
  template <class T>
  const T* data(const std::string& tensor, uint32_t rank) const {
    return reinterpret_cast<const T*>(memory_[program_.find_tensor(tensor, rank).value().index].data());
  }

 private:
  const Program& program_;
  std::vector<std::vector<std::byte>> memory_;  // one for each tensor
};

}  // namespace serval::testing
