#include "engine/backend/device_state.h"

#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "fmt/format.h"

#include "vm/error.h"

namespace serval {
namespace {

// What is copied up and down: rows, slots, sampled and control, all that stands before the output table.
constexpr size_t kHeadBytes = offsetof(StateBlock, output);
constexpr size_t kStopOffset = sizeof(StateBlock);
static_assert(kStopOffset % alignof(uint32_t) == 0 && kHeadBytes % alignof(int32_t) == 0);
static_assert(std::atomic_ref<uint32_t>::is_always_lock_free,
              "request_stop() is called from signal handlers");

}  // namespace

DeviceState::DeviceState(uint32_t blocks_per_sequence)
    : blocks_per_sequence_(blocks_per_sequence),
      pinned_(kStopOffset + sizeof(uint32_t)),
      staging_(kHeadBytes + size_t{kMaxSlots} * blocks_per_sequence * sizeof(int32_t)),
      device_(staging_.size()),
      host_(new (pinned_.data()) StateBlock),
      host_stop_(new (pinned_.data() + kStopOffset) uint32_t{0}) {
  std::memset(staging_.data(), 0, staging_.size());
  SERVAL_CUDA_CHECK(cudaMemset(device_.data(), 0, device_.size()));
}

std::span<int32_t> DeviceState::block_table() {
  return {reinterpret_cast<int32_t*>(staging_.data() + kHeadBytes), size_t{kMaxSlots} * blocks_per_sequence_};
}

void* DeviceState::device_address(const std::string& name) const {
  if (name == state_tensor::kRows) return device_.data() + offsetof(StateBlock, rows);
  if (name == state_tensor::kSlots) return device_.data() + offsetof(StateBlock, slots);
  if (name == state_tensor::kSampled) return device_.data() + offsetof(StateBlock, sampled);
  if (name == state_tensor::kControl) return device_.data() + offsetof(StateBlock, control);
  if (name == state_tensor::kBlockTable) return device_.data() + kHeadBytes;
  if (name == state_tensor::kOutput) return pinned_.device_data() + offsetof(StateBlock, output);
  if (name == state_tensor::kHostStop) return pinned_.device_data() + kStopOffset;
  throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': unknown part of the state", name));
}

void DeviceState::bind(const Program& program, DeviceMemory& memory) const {
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.kind == TensorKind::kState) memory.bind({t}, device_address(tensor.name));
  }
}

void DeviceState::upload(uint32_t slot_bound, const CudaStream& stream) {
  std::memcpy(staging_.data(), static_cast<const void*>(host_), kHeadBytes);
  const size_t bytes = kHeadBytes + size_t{slot_bound} * blocks_per_sequence_ * sizeof(int32_t);
  SERVAL_CUDA_CHECK(
      cudaMemcpyAsync(device_.data(), staging_.data(), bytes, cudaMemcpyHostToDevice, stream.get()));
}

void DeviceState::download(const CudaStream& stream) {
  SERVAL_CUDA_CHECK(cudaMemcpyAsync(host_, device_.data(), kHeadBytes, cudaMemcpyDeviceToHost, stream.get()));
}

void DeviceState::request_stop() noexcept {
  std::atomic_ref(*host_stop_).store(1, std::memory_order_release);
}

void DeviceState::clear_stop() noexcept {
  std::atomic_ref(*host_stop_).store(0, std::memory_order_release);
}

}  // namespace serval
