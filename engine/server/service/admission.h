// Admission control: which requests run, which wait and which get 429. Used on the loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/include/serval/engine.h"
#include "engine/server/service/event_pump.h"
#include "engine/server/service/fair_queue.h"
#include "engine/server/service/generation.h"

namespace serval::server {

class Admission {
 public:
  // `max_queue`: limit of waiting requests, not counting those in the engine.
  explicit Admission(uint32_t max_queue) : max_queue_(max_queue) {}

  // Counts a request as waiting while it is parsed and encoded; release() ends this. Throws ApiError (429) if
  // the queue is full.
  void reserve();
  void release() { --preparing_; }
  void add(const std::shared_ptr<Generation>& generation);
  void on_end(Generation& generation);

  // Starts waiting requests from now on, until close().
  void open(Engine& engine, std::shared_ptr<EventPump> pump);
  void close();
  // Answers waiting requests whose deadline has passed with 504. Sends a comment on streams that have been
  // silent for `silence`.
  void check_time(Generation::Clock::time_point now, std::chrono::milliseconds silence);
  void fail_all(const ApiError& error);

  bool idle() const { return generations_.empty() && preparing_ == 0; }
  size_t waiting() const { return queue_.size() + preparing_; }
  size_t running() const { return generations_.size() - queue_.size(); }

 private:
  void start_next();
  int retry_after_s() const;

  const uint32_t max_queue_;
  Engine* engine_ = nullptr;
  std::shared_ptr<EventPump> pump_;
  uint32_t max_in_engine_ = 0;  // limit of answers in the engine
  FairQueue queue_;
  std::map<uint64_t, std::shared_ptr<Generation>> generations_;  // by ticket id
  size_t preparing_ = 0;
  double average_s_ = 1;  // moving average of the requests' total times
};

}  // namespace serval::server
