// A bench's tensors in GPU memory, each on its rank's GPU, in the layouts that the device's instructions
// read.
#pragma once

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "engine/device/weight_kernels.h"
#include "tests/instructions/scene.h"
#include "vm/device/device_array.h"
#include "vm/layout/activation_image.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/row_bytes.h"
#include "vm/layout/slab_image.h"
#include "vm/stored_bytes.h"

namespace serval::testing {

class GpuTensors {
 public:
  // `gpus`: the GPU of each of the bench's devices.
  explicit GpuTensors(Bench& bench, std::vector<int> gpus = {0})
      : bench_(bench), gpus_(std::move(gpus)), packed_(gpus_.size()) {}

  const ProgramShape& shape() const { return bench_.program.shape(); }

  // Marks a weight whose rows are paired by the rotation in heads of `head_dim`. Call it before packing.
  void pair_rows(TensorId weight, uint32_t head_dim) {
    bench_.program.tensors[weight.index].row_order = RowOrder::kRotaryPairs;
    bench_.program.tensors[weight.index].head_dim = head_dim;
  }

  void upload() {
    std::vector<void*> bases;
    for (uint32_t i = 0; i < bench_.memory.size(); ++i) {
      const std::vector<std::byte> memory = is_product_input(i) ? image_of(i) : bench_.memory[i];
      use_gpu_of(i);
      if (i == tensors_.size()) tensors_.emplace_back(memory.size());
      SERVAL_CUDA_CHECK(cudaMemcpy(tensors_[i].data(), memory.data(), memory.size(), cudaMemcpyHostToDevice));
      bases.push_back(tensors_[i].data());
    }
    use_gpu(gpus_.front());
    bases_ = DeviceArray<void*>(std::span<void* const>(bases));
  }
  // Packs all uploaded weights of more than one row into page images, one after the other.
  void pack_weights() {
    constexpr size_t kAlignment = 256;
    std::vector<size_t> end(gpus_.size());  // for each device
    for (uint32_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& t = bench_.tensor({i});
      if (t.image != Image::kPages) continue;
      image_at_[i] = end[t.device];
      end[t.device] += (stored_bytes(t) + kAlignment - 1) / kAlignment * kAlignment;
    }
    for (size_t device = 0; device < gpus_.size(); ++device) {
      use_gpu(gpus_[device]);
      packed_[device] = DeviceArray<std::byte>(end[device]);
    }
    for (const auto& [i, offset] : image_at_) {
      const Tensor& t = bench_.tensor({i});
      use_gpu_of(i);
      const void* rows = tensors_[i].data();
      std::byte* image = packed_[t.device].data() + offset;
      if (has_codes(t.dtype))
        pack_code_rows(t, 0, t.rows, static_cast<const uint8_t*>(rows), image, nullptr);
      else
        pack_rows(t, 0, t.rows, static_cast<const uint16_t*>(rows), image, nullptr);
    }
    for (const int gpu : gpus_) {
      use_gpu(gpu);
      SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    }
  }
  void download(TensorId tensor) {
    use_gpu_of(tensor.index);
    const std::vector<std::byte> memory = tensors_[tensor.index].download();
    if (!is_product_input(tensor.index)) {
      bench_.memory[tensor.index] = memory;
      return;
    }
    const uint32_t size = size_of(bench_.tensor(tensor).dtype);
    for_elements(tensor.index, [&](std::byte* element, uint64_t in_image) {
      std::memcpy(element, memory.data() + in_image, size);
    });
    for_scales(tensor.index, [&](std::byte* scale, uint64_t in_image) {
      std::memcpy(scale, memory.data() + in_image, sizeof(float));
    });
  }
  void* base(TensorId tensor) const {
    const auto image = image_at_.find(tensor.index);
    if (image == image_at_.end()) return tensors_[tensor.index].data();
    return packed_[bench_.tensor(tensor).device].data() + image->second;
  }
  // [tensors], in the first GPU's memory.
  void* const* bases() const { return bases_.data(); }

 private:
  void use_gpu_of(uint32_t tensor) const { use_gpu(gpus_.at(bench_.tensor({tensor}).device)); }
  bool is_product_input(uint32_t tensor) const {
    const Image image = bench_.tensor({tensor}).image;
    return image == Image::kActivation || image == Image::kSlabs;
  }
  // Calls fn with each element of the tensor in the bench and its offset in the image.
  template <class Fn>
  void for_elements(uint32_t tensor, Fn&& fn) {
    const auto rows = static_cast<uint32_t>(bench_.tensor({tensor}).rows);
    const auto cols = static_cast<uint32_t>(bench_.tensor({tensor}).cols);
    const DType dtype = bench_.tensor({tensor}).dtype;
    const bool slabs = bench_.tensor({tensor}).image == Image::kSlabs;
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t c = 0; c < cols; ++c) {
        fn(bench_.memory[tensor].data() + r * row_bytes_of(dtype, cols) + size_t{c} * size_of(dtype),
           !slabs                  ? uint64_t{activation_image::offset(rows, cols, r, c)}
           : dtype == DType::kE4M3 ? e4m3_slab_image::offset(rows, cols, r, c)
                                   : slab_image::offset(rows, cols, r, c));
      }
    }
  }
  // Likewise with the scale of each row, if the tensor has scales.
  template <class Fn>
  void for_scales(uint32_t tensor, Fn&& fn) {
    if (!has_input_scales(bench_.tensor({tensor}))) return;
    const auto rows = static_cast<uint32_t>(bench_.tensor({tensor}).rows);
    const auto cols = static_cast<uint32_t>(bench_.tensor({tensor}).cols);
    for (uint32_t r = 0; r < rows; ++r)
      fn(bench_.memory[tensor].data() + r * row_bytes_of(DType::kE4M3, cols) + cols,
         e4m3_slab_image::scale_offset(rows, cols, r));
  }
  std::vector<std::byte> image_of(uint32_t tensor) {
    std::vector<std::byte> out(stored_bytes(bench_.tensor({tensor})));
    const uint32_t size = size_of(bench_.tensor({tensor}).dtype);
    for_elements(tensor, [&](const std::byte* element, uint64_t in_image) {
      std::memcpy(out.data() + in_image, element, size);
    });
    for_scales(tensor, [&](const std::byte* scale, uint64_t in_image) {
      std::memcpy(out.data() + in_image, scale, sizeof(float));
    });
    return out;
  }

  Bench& bench_;
  const std::vector<int> gpus_;
  std::vector<DeviceArray<std::byte>> tensors_;
  std::vector<DeviceArray<std::byte>> packed_;  // for each device
  std::map<uint32_t, size_t> image_at_;         // in its device's packed_
  DeviceArray<void*> bases_;
};

}  // namespace serval::testing
