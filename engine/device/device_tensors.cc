#include "engine/device/device_tensors.h"

#include <algorithm>

#include "fmt/format.h"

#include "vm/base/error.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

constexpr uint64_t kAlignment = 256;  // bytes; the alignment of cudaMalloc

struct Room {
  TensorKind kind;
  uint64_t bytes;
};

std::map<std::string, Room> rooms_of(std::span<const Program* const> programs, uint32_t rank) {
  std::map<std::string, Room> rooms;
  for (const Program* program : programs) {
    for (const Tensor& tensor : program->tensors) {
      if (tensor.kind == TensorKind::kState || tensor.device != rank) continue;
      Room& room = rooms.try_emplace(tensor.name, Room{tensor.kind, 0}).first->second;
      room.bytes = std::max(room.bytes, (stored_bytes(tensor) + kAlignment - 1) / kAlignment * kAlignment);
    }
  }
  return rooms;
}

}  // namespace

DeviceTensors::Sizes DeviceTensors::sizes(std::span<const Program* const> programs, uint32_t rank) {
  Sizes sizes;
  for (const auto& [name, room] : rooms_of(programs, rank)) {
    uint64_t& sum = room.kind == TensorKind::kWeight    ? sizes.weights
                    : room.kind == TensorKind::kKvCache ? sizes.caches
                                                        : sizes.others;
    sum += room.bytes;
  }
  return sizes;
}

// A single allocation, because a page of GPU memory is 2 MiB and many tensors have only a few KiB. Tensors
// that start as zero come first.
DeviceTensors::DeviceTensors(std::span<const Program* const> programs, uint32_t rank) : rank_(rank) {
  const std::map<std::string, Room> rooms = rooms_of(programs, rank);
  uint64_t end = 0, zeroed = 0;
  for (const bool immutable : {false, true}) {
    for (const auto& [name, room] : rooms) {
      if (is_immutable(room.kind) != immutable) continue;
      offsets_.emplace(name, end);
      end += room.bytes;
    }
    if (!immutable) zeroed = end;
  }
  memory_ = DeviceBuffer(end);
  if (zeroed > 0) SERVAL_CUDA_CHECK(cudaMemset(memory_.data(), 0, zeroed));
}

std::byte* DeviceTensors::data(std::string_view name) const {
  const auto found = offsets_.find(name);
  if (found == offsets_.end())
    throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}' has no GPU memory", name));
  return memory_.data() + found->second;
}

void DeviceTensors::bind(const Program& program, DeviceMemory& memory) const {
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.kind != TensorKind::kState && tensor.device == rank_) memory.bind({t}, data(tensor.name));
  }
}

}  // namespace serval
