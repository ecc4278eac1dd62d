// A buffer and a stream on each rank's GPU, for what runs on GPUs without Serval's interpreter. An interface,
// so that tests can do without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace serval {

class RankStreams {
 public:
  virtual ~RankStreams() = default;
  // Makes the rank's GPU the thread's current one. Before anything that is enqueued for the rank.
  virtual void use(size_t rank) = 0;
  virtual void* buffer(size_t rank) = 0;  // zeroed, in the rank's GPU
  virtual void* stream(size_t rank) = 0;  // a cudaStream_t that waits for no other stream
  // Moments in the rank's stream, around what is timed.
  virtual void mark_begin(size_t rank) = 0;
  virtual void mark_end(size_t rank) = 0;
  // Whether all before mark_end() is done. Does not wait.
  virtual bool has_ended(size_t rank) = 0;
  // Between the moments, which have passed.
  virtual double elapsed_us(size_t rank) = 0;
};

// Of these GPUs (CUDA's indices), with `bytes` each. Throws Error(kRuntime) where one cannot run programs or
// the build has no CUDA, Error(kOutOfMemory).
std::unique_ptr<RankStreams> make_rank_streams(std::span<const int> gpus, uint64_t bytes);

}  // namespace serval
