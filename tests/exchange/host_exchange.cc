#include "tests/exchange/host_exchange.h"

#include <cstring>

#include "benchmarks/exchange/exchange_program.h"
#include "instructions/isa.h"
#include "models/checkpoint/random_weights.h"
#include "vm/base/bf16.h"
#include "vm/host/interpreter.h"
#include "vm/state/block.h"

namespace serval::testing {

std::vector<uint16_t> exchange_weights(const Tensor& tensor) {
  if (tensor.rows == 1) return std::vector<uint16_t>(tensor.cols, float_to_bf16(1));
  std::vector<uint16_t> values(tensor.rows * tensor.cols);
  const uint64_t key = random_tensor_key(tensor.name, 1 + tensor.device);
  fill_random_matrix(values, key, 0, random_matrix_scale(static_cast<int64_t>(tensor.cols)));
  return values;
}

HostExchange::HostExchange(const Program& program) : program_(program) {
  for (const Tensor& tensor : program.tensors) {
    std::vector<std::byte>& memory = memory_.emplace_back(tensor.bytes());
    if (tensor.kind != TensorKind::kWeight) continue;
    const std::vector<uint16_t> values = exchange_weights(tensor);
    std::memcpy(memory.data(), values.data(), memory.size());
  }
}

uint32_t HostExchange::run() {
  StateBlock state(program_.limits);
  fill_exchange_state(state);
  HostMemory bound(program_);
  for (uint32_t t = 0; t < program_.tensors.size(); ++t) {
    const Tensor& tensor = program_.tensors[t];
    const void* part = tensor.kind == TensorKind::kState ? state.part(tensor.name) : nullptr;
    if (part != nullptr) std::memcpy(memory_[t].data(), part, memory_[t].size());
    bound.bind({t}, memory_[t].data());
  }
  HostInterpreter interpreter(program_, host_isa(), bound, {.threads = 4, .stall_timeout_s = 10});
  return interpreter.run({});
}

}  // namespace serval::testing
