// A buffer and a stream on each rank's GPU, for GPU work without Serval's interpreter. An interface, so that
// tests run without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace serval {

class RankStreams {
 public:
  virtual ~RankStreams() = default;
  // Makes the rank's GPU the current one of this thread. Call it before enqueuing work for the rank.
  virtual void use(size_t rank) = 0;
  virtual void* buffer(size_t rank) = 0;  // zeroed, in the rank's GPU
  virtual void* stream(size_t rank) = 0;  // a cudaStream_t that waits for no other stream
  // Record events in the rank's stream, around the work to be timed.
  virtual void mark_begin(size_t rank) = 0;
  virtual void mark_end(size_t rank) = 0;
  // Returns whether all work before mark_end() is done. Does not wait.
  virtual bool has_ended(size_t rank) = 0;
  // The time between the two events, which must have occurred.
  virtual double elapsed_us(size_t rank) = 0;
};

// Creates buffers of `bytes` on these GPUs (CUDA's indices); only in builds with CUDA. Throws Error(kRuntime)
// if one cannot run programs, and Error(kOutOfMemory).
std::unique_ptr<RankStreams> make_rank_streams(std::span<const int> gpus, uint64_t bytes);

}  // namespace serval
