#include "engine/device/device_state.h"

#include <atomic>
#include <new>
#include <optional>
#include <string>

#include "fmt/format.h"

#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval {
namespace {

static_assert(std::atomic_ref<uint32_t>::is_always_lock_free,
              "request_stop() is called from signal handlers");

// Starting a second copy costs time: up to this many unused bytes, a single copy is faster.
constexpr size_t kUnusedBytesOfOneCopy = 16 * 1024;

}  // namespace

size_t pinned_state_bytes(const StateLimits& limits) {
  return StateLayout(limits).bytes + sizeof(uint32_t);
}
size_t device_state_bytes(const StateLimits& limits) {
  return StateLayout(limits).output;
}

DeviceState::DeviceState(const StateLimits& limits, std::span<const int> gpus)
    : pinned_(pinned_state_bytes(limits)),
      host_(limits, pinned_.data()),
      host_stop_(new (pinned_.data() + host_.layout.bytes) uint32_t{0}) {
  for (const int gpu : gpus) {
    use_gpu(gpu);
    const DeviceBuffer& copy = copies_.emplace_back(device_state_bytes(limits));
    SERVAL_CUDA_CHECK(cudaMemset(copy.data(), 0, copy.size()));
  }
}

void* DeviceState::device_address(const std::string& name, uint32_t rank) const {
  if (name == state_tensor::kHostStop) return pinned_.device_data() + host_.layout.bytes;
  const std::optional<size_t> offset = host_.layout.offset_of(name);
  if (!offset)
    throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': unknown part of the state", name));
  return (host_.layout.is_in_host_memory(*offset) ? pinned_.device_data() : copies_.at(rank).data()) +
         *offset;
}

void DeviceState::bind(const Program& program, DeviceMemory& memory) const {
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.kind == TensorKind::kState) memory.bind({t}, device_address(tensor.name, tensor.device));
  }
}

void DeviceState::copy_up(size_t begin, size_t end, uint32_t rank, const CudaStream& stream) {
  SERVAL_CUDA_CHECK(cudaMemcpyAsync(copies_[rank].data() + begin, host_.memory() + begin, end - begin,
                                    cudaMemcpyHostToDevice, stream.get()));
}

size_t DeviceState::slots_end(StateInUse use) const {
  return host_.layout.slots + use.slots * sizeof(SequenceSlot);
}
size_t DeviceState::table_end(StateInUse use) const {
  const StateLayout& layout = host_.layout;
  return layout.block_table + size_t{use.slots} * layout.blocks_per_sequence * sizeof(int32_t);
}

void DeviceState::upload(StateInUse use, uint32_t rank, const CudaStream& stream) {
  if (host_.layout.block_table - slots_end(use) <= kUnusedBytesOfOneCopy)
    return copy_up(0, table_end(use), rank, stream);
  upload_rows_and_slots(use, rank, stream);
  upload_block_table(use, rank, stream);
}

void DeviceState::upload_block_table(StateInUse use, uint32_t rank, const CudaStream& stream) {
  copy_up(host_.layout.block_table, table_end(use), rank, stream);
}

void DeviceState::upload_rows_and_slots(StateInUse use, uint32_t rank, const CudaStream& stream) {
  copy_up(0, slots_end(use), rank, stream);
}

void DeviceState::upload_attention(uint32_t rank, const CudaStream& stream) {
  const size_t begin = host_.layout.attention;
  copy_up(begin, begin + sizeof(AttentionList) + host_.attention.items * sizeof(AttentionItem), rank, stream);
}

void DeviceState::upload_adjustments(StateInUse use, const CudaStream& stream) {
  const size_t pitch = adjustment_bytes(host_.limits.max_context), first = host_.layout.adjustments;
  const auto copy = [&](size_t begin, size_t bytes) {
    if (bytes == 0) return;
    SERVAL_CUDA_CHECK(cudaMemcpy2DAsync(copies_.front().data() + begin, pitch, host_.memory() + begin, pitch,
                                        bytes, use.slots, cudaMemcpyHostToDevice, stream.get()));
  };
  copy(first, use.biases * sizeof(TokenBias));
  copy(first + kHistoryOffset, use.history * sizeof(int32_t));
}

void DeviceState::download(StateInUse use, const CudaStream& stream) {
  SERVAL_CUDA_CHECK(cudaMemcpyAsync(host_.memory(), copies_.front().data(),
                                    host_.layout.slots + use.slots * sizeof(SequenceSlot),
                                    cudaMemcpyDeviceToHost, stream.get()));
}

void DeviceState::request_stop() noexcept {
  std::atomic_ref(*host_stop_).store(1, std::memory_order_release);
}

void DeviceState::clear_stop() noexcept {
  std::atomic_ref(*host_stop_).store(0, std::memory_order_release);
}

}  // namespace serval
