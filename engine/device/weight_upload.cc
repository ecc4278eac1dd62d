#include "engine/device/weight_upload.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/device/weight_kernels.h"
#include "engine/device/weight_slices.h"
#include "models/ranks.h"
#include "vm/device/cuda_resources.h"

namespace serval {
namespace {

// The size of one copy, and the number of slices that are read, copied or packed at the same time. From the
// page cache of a machine with 16 cores, 16 buffers of 4 MiB reached 50 GB/s to an H200 and 8 of 8 MiB
// reached 44; the limit of the bus was 54.
constexpr int64_t kSliceBytes = int64_t{4} << 20;
constexpr size_t kStagingBuffers = 16;

constexpr int64_t kBytesPerBf16 = size_of(DType::kBF16);

bool is_packed(const Tensor& weight) {
  return weight.rows > 1;
}

// Rows of a slice: whole units or heads, close to kSliceBytes.
int64_t rows_of_slice(const RankWeight& weight) {
  const auto least =
      is_packed(*weight.tensor) ? static_cast<int64_t>(slice_rows(*weight.tensor)) : int64_t{1};
  const int64_t least_bytes = least * weight.part.cols * kBytesPerBf16;
  return least * std::max<int64_t>(1, kSliceBytes / least_bytes);
}

// A slice is read into `pinned`, copied to `device` and packed from there; copying and packing run in
// `stream`.
struct StagingBuffer {
  explicit StagingBuffer(size_t bytes) : pinned(bytes), device(bytes) {}
  uint16_t* rows() const { return reinterpret_cast<uint16_t*>(pinned.data()); }
  uint16_t* device_rows() const { return reinterpret_cast<uint16_t*>(device.data()); }
  PinnedBuffer pinned;
  DeviceBuffer device;
  CudaStream stream;
};

// Buffers for many threads, oldest first, so that the work in the next buffer has had the most time to
// finish.
class StagingPool {
 public:
  StagingPool(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; ++i) buffers_.emplace_back(bytes);
    for (StagingBuffer& buffer : buffers_) free_.push_back(&buffer);
  }

  // Takes a buffer for its own lifetime. Waits for a free buffer and for the work in it.
  class Loan {
   public:
    explicit Loan(StagingPool& pool) : pool_(pool), buffer_(pool.take()) { buffer_.stream.wait(); }
    ~Loan() { pool_.give_back(buffer_); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    StagingBuffer* operator->() const { return &buffer_; }
    const StagingBuffer& operator*() const { return buffer_; }

   private:
    StagingPool& pool_;
    StagingBuffer& buffer_;
  };

  void wait() const {
    for (const StagingBuffer& buffer : buffers_) buffer.stream.wait();
  }

 private:
  StagingBuffer& take() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return !free_.empty(); });
    StagingBuffer& buffer = *free_.front();
    free_.pop_front();
    return buffer;
  }
  void give_back(StagingBuffer& buffer) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(&buffer);
    }
    given_back_.notify_one();
  }

  std::deque<StagingBuffer> buffers_;
  std::deque<StagingBuffer*> free_;
  std::mutex mutex_;
  std::condition_variable given_back_;
};

class Upload {
 public:
  Upload(const WeightSource& source, const Model& model, const Program& program,
         std::span<const UploadTarget> targets)
      : source_(source), targets_(targets), weights_(weights_of_ranks(model, program)) {
    std::erase_if(weights_,
                  [&](const RankWeight& weight) { return !source.has(source.index_of(weight.source_name)); });
  }

  // Makes random matrices on the GPUs; they need no slices.
  void make_random(uint64_t seed) {
    std::vector<CudaStream> streams;
    for (const UploadTarget& target : targets_) {
      use_gpu(target.gpu);
      streams.emplace_back();
    }
    std::erase_if(weights_, [&](const RankWeight& weight) {
      const Tensor& tensor = *weight.tensor;
      if (!is_packed(tensor)) return false;
      use_gpu(targets_[tensor.device].gpu);
      const MatrixPart part{static_cast<uint64_t>(weight.part.first_row),
                            static_cast<uint64_t>(weight.part.first_col),
                            static_cast<uint64_t>(weight.matrix_cols)};
      pack_random(tensor, weight.source_name, part, seed, image_of(weight), streams[tensor.device].get());
      return true;
    });
    for (const CudaStream& stream : streams) stream.wait();
  }

  void copy_and_pack(int64_t total_bytes, const LoadProgress& progress) {
    std::vector<int64_t> rows;
    for (const RankWeight& weight : weights_) {
      rows.push_back(rows_of_slice(weight));
      tensors_.push_back(source_.index_of(weight.source_name));
    }
    const std::vector<WeightPiece> slices = cut_into_slices(weights_, rows);
    int64_t largest = 0;
    for (const WeightPiece& slice : slices)
      largest = std::max(largest, elements_of_slice(weights_[slice.tensor], slice));
    const size_t bytes = static_cast<size_t>(largest) * sizeof(uint16_t);
    std::deque<StagingPool> pools;
    for (const UploadTarget& target : targets_) {
      use_gpu(target.gpu);
      pools.emplace_back(std::min(kStagingBuffers, slices.size()), bytes);
    }
    for_each_weight_piece(
        slices,
        [&](const WeightPiece& slice) {
          copy_and_pack_slice(slice, pools[weights_[slice.tensor].tensor->device]);
        },
        total_bytes, progress);
    for (const StagingPool& pool : pools) pool.wait();
  }

 private:
  std::byte* image_of(const RankWeight& weight) const {
    return targets_[weight.tensor->device].tensors->data(weight.tensor->name);
  }

  void copy_and_pack_slice(const WeightPiece& slice, StagingPool& pool) const {
    const RankWeight& weight = weights_[slice.tensor];
    const Tensor& tensor = *weight.tensor;
    use_gpu(targets_[tensor.device].gpu);  // the current GPU is per thread
    std::byte* to = image_of(weight);
    const int64_t rows = slice.count / weight.matrix_cols;
    const int64_t first_row = slice.first / weight.matrix_cols - weight.part.first_row;
    const StagingPool::Loan buffer(pool);
    if (source_.keeps_codes(tensors_[slice.tensor]))
      return copy_and_pack_codes(slice, first_row, rows, *buffer);
    const auto count = static_cast<size_t>(elements_of_slice(weight, slice));
    read_slice(source_, tensors_[slice.tensor], weight, slice, {buffer->rows(), count});
    void* copy_to = is_packed(tensor) ? static_cast<void*>(buffer->device.data()) : to;
    SERVAL_CUDA_CHECK(cudaMemcpyAsync(copy_to, buffer->rows(), count * sizeof(uint16_t),
                                      cudaMemcpyHostToDevice, buffer->stream.get()));
    if (!is_packed(tensor)) return;
    pack_rows(tensor, static_cast<uint64_t>(first_row), static_cast<uint64_t>(rows), buffer->device_rows(),
              to, buffer->stream.get());
  }

  // For a slice of rows, which have all columns, that the source keeps in codes. Rows are smaller than in
  // bf16, so that they fit into the buffer.
  void copy_and_pack_codes(const WeightPiece& slice, int64_t first_row, int64_t rows,
                           const StagingBuffer& buffer) const {
    const Tensor& tensor = *weights_[slice.tensor].tensor;
    const size_t source_tensor = tensors_[slice.tensor];
    auto* codes = reinterpret_cast<uint8_t*>(buffer.pinned.data());
    source_.fetch(source_tensor, slice.first, slice.count);
    source_.read_codes(source_tensor, slice.first / weights_[slice.tensor].matrix_cols, rows, codes);
    const auto bytes = bytes_of_weights(tensor.dtype, rows, static_cast<int64_t>(tensor.cols));
    SERVAL_CUDA_CHECK(cudaMemcpyAsync(buffer.device.data(), codes, static_cast<size_t>(bytes),
                                      cudaMemcpyHostToDevice, buffer.stream.get()));
    pack_code_rows(tensor, static_cast<uint64_t>(first_row), static_cast<uint64_t>(rows),
                   reinterpret_cast<const uint8_t*>(buffer.device.data()), image_of(weights_[slice.tensor]),
                   buffer.stream.get());
  }

  const WeightSource& source_;
  const std::span<const UploadTarget> targets_;
  std::vector<RankWeight> weights_;
  std::vector<size_t> tensors_;  // index in the source of each of them
};

}  // namespace

uint64_t staging_bytes(const Model& model, const Program& program, uint32_t rank) {
  int64_t largest = 0;
  for (const RankWeight& weight : weights_of_ranks(model, program)) {
    if (weight.tensor->device != rank) continue;
    const int64_t rows = std::min(rows_of_slice(weight), weight.part.rows);
    largest = std::max(largest, rows * weight.part.cols);
  }
  return kStagingBuffers * static_cast<uint64_t>(largest * kBytesPerBf16);
}

void upload_weights(const WeightSource& source, const Model& model, const Program& program,
                    std::span<const UploadTarget> targets, const LoadProgress& progress) {
  Upload upload(source, model, program, targets);
  if (source.seed()) upload.make_random(*source.seed());
  upload.copy_and_pack(source.total_bytes(), progress);
  source.report();
}

void upload_constants(const Model& model, uint32_t context, const UploadTarget& target) {
  use_gpu(target.gpu);
  for (const ModelConstant& constant : model.constants(context)) {
    SERVAL_CUDA_CHECK(cudaMemcpy(target.tensors->data(constant.name), constant.values.data(),
                                 constant.values.size() * sizeof(float), cudaMemcpyHostToDevice));
  }
  // Memsets and copies so far were only enqueued, in a stream that no other stream waits for.
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace serval
