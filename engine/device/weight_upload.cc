#include "engine/device/weight_upload.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/device/weight_kernels.h"
#include "vm/device/cuda_resources.h"

namespace serval {
namespace {

// What one copy brings, and how many are being read, under way or packed. From the page cache of a machine
// with 16 cores, 16 of 4 MiB came to an H200 at 50 GB/s and 8 of 8 MiB at 44; the bus alone gave 54.
constexpr int64_t kSliceBytes = int64_t{4} << 20;
constexpr size_t kStagingBuffers = 16;

constexpr int64_t kBytesPerBf16 = size_of(DType::kBF16);

bool is_packed(const Tensor& weight) {
  return weight.rows > 1;
}

// Rows of one slice: whole units, or whole heads, near kSliceBytes.
int64_t rows_of_slice(const Tensor& weight) {
  const auto least = is_packed(weight) ? static_cast<int64_t>(slice_rows(weight)) : int64_t{1};
  const int64_t least_bytes = least * static_cast<int64_t>(weight.cols) * kBytesPerBf16;
  return least * std::max<int64_t>(1, kSliceBytes / least_bytes);
}

// A slice's way: read into `pinned`, copied to `device`, packed from there, the last two in `stream`.
struct StagingBuffer {
  explicit StagingBuffer(size_t bytes) : pinned(bytes), device(bytes) {}
  uint16_t* rows() const { return reinterpret_cast<uint16_t*>(pinned.data()); }
  uint16_t* device_rows() const { return reinterpret_cast<uint16_t*>(device.data()); }
  PinnedBuffer pinned;
  DeviceBuffer device;
  CudaStream stream;
};

// Buffers for many threads, oldest first, so that the work in the one that is taken has had the most time.
class StagingPool {
 public:
  StagingPool(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; ++i) buffers_.emplace_back(bytes);
    for (StagingBuffer& buffer : buffers_) free_.push_back(&buffer);
  }

  // Lends a buffer for the life of the result; waits for one, and for the work in it.
  class Loan {
   public:
    explicit Loan(StagingPool& pool) : pool_(pool), buffer_(pool.take()) { buffer_.stream.wait(); }
    ~Loan() { pool_.give_back(buffer_); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    StagingBuffer* operator->() const { return &buffer_; }

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
  Upload(const WeightSource& source, const Program& program, const DeviceTensors& tensors, const Gpu& gpu)
      : source_(source), tensors_(tensors), gpu_(gpu) {
    for (const Tensor& tensor : program.tensors) {
      if (tensor.kind == TensorKind::kWeight) weights_.push_back({&tensor, source.index_of(tensor.name)});
    }
  }

  // Matrices that the GPU can make; they need no slices.
  void make_random(uint64_t seed) {
    const CudaStream stream;
    std::erase_if(weights_, [&](const Weight& weight) {
      if (!is_packed(*weight.tensor)) return false;
      pack_random(*weight.tensor, seed, tensors_.data(weight.tensor->name), stream.get());
      return true;
    });
    stream.wait();
  }

  void copy_and_pack(int64_t total_bytes, const LoadProgress& progress) {
    const std::vector<WeightPiece> slices = cut_into_slices();
    int64_t largest = 0;
    for (const WeightPiece& slice : slices) largest = std::max(largest, slice.count);
    StagingPool buffers(std::min(kStagingBuffers, slices.size()),
                        static_cast<size_t>(largest) * sizeof(uint16_t));
    for_each_weight_piece(
        slices, [&](const WeightPiece& slice) { copy_and_pack_slice(slice, buffers); }, total_bytes,
        progress);
    buffers.wait();
  }

 private:
  struct Weight {
    const Tensor* tensor;
    size_t source_index;
  };

  std::vector<WeightPiece> cut_into_slices() const {
    std::vector<WeightPiece> slices;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Tensor& tensor = *weights_[i].tensor;
      const auto cols = static_cast<int64_t>(tensor.cols);
      const int64_t step = rows_of_slice(tensor) * cols, end = static_cast<int64_t>(tensor.rows) * cols;
      for (int64_t first = 0; first < end; first += step)
        slices.push_back({i, first, std::min(step, end - first)});
    }
    return slices;
  }

  void copy_and_pack_slice(const WeightPiece& slice, StagingPool& pool) const {
    use_gpu(gpu_.index);  // of this thread
    const Weight& weight = weights_[slice.tensor];
    const Tensor& tensor = *weight.tensor;
    std::byte* to = tensors_.data(tensor.name);
    const auto count = static_cast<size_t>(slice.count);
    const size_t bytes = count * sizeof(uint16_t);
    const StagingPool::Loan buffer(pool);
    source_.fetch(weight.source_index, slice.first, slice.count);
    source_.read(weight.source_index, slice.first, {buffer->rows(), count});
    source_.require_finite(weight.source_index, slice.first, {buffer->rows(), count});
    void* copy_to = is_packed(tensor) ? static_cast<void*>(buffer->device.data()) : to;
    SERVAL_CUDA_CHECK(
        cudaMemcpyAsync(copy_to, buffer->pinned.data(), bytes, cudaMemcpyHostToDevice, buffer->stream.get()));
    if (!is_packed(tensor)) return;
    pack_rows(tensor, static_cast<uint64_t>(slice.first) / tensor.cols, count / tensor.cols,
              buffer->device_rows(), to, buffer->stream.get());
  }

  const WeightSource& source_;
  const DeviceTensors& tensors_;
  const Gpu& gpu_;
  std::vector<Weight> weights_;
};

}  // namespace

uint64_t staging_bytes(const Program& program) {
  int64_t largest = 0;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.kind != TensorKind::kWeight) continue;
    const int64_t rows = std::min(rows_of_slice(tensor), static_cast<int64_t>(tensor.rows));
    largest = std::max(largest, rows * static_cast<int64_t>(tensor.cols));
  }
  return kStagingBuffers * static_cast<uint64_t>(largest * kBytesPerBf16);
}

void upload_weights(const WeightSource& source, const Program& program, const DeviceTensors& tensors,
                    const Gpu& gpu, const LoadProgress& progress) {
  Upload upload(source, program, tensors, gpu);
  if (source.seed()) upload.make_random(*source.seed());
  upload.copy_and_pack(source.total_bytes(), progress);
  source.report();
}

}  // namespace serval
