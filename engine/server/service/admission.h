// Which requests run, which wait, and which are told to come back later. For the loop's thread.
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
  // `max_queue`: requests that wait beside those that the engine has.
  explicit Admission(uint32_t max_queue) : max_queue_(max_queue) {}

  // A request that is about to be read and encoded counts as one that waits. Throws ApiError (429) beyond the
  // limit.
  void reserve();
  void release() { --preparing_; }
  void add(const std::shared_ptr<Generation>& generation);
  void on_end(Generation& generation);

  // Requests are started from now on.
  void open(Engine& engine, std::shared_ptr<EventPump> pump);
  void close();
  // Those whose deadline has passed while they waited get 504. Streams that have been silent for so long get
  // a sign of life.
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
  uint32_t places_ = 0;  // answers that the engine gets before others wait here
  FairQueue queue_;
  std::map<uint64_t, std::shared_ptr<Generation>> generations_;  // by the number of their tickets
  size_t preparing_ = 0;
  double average_s_ = 1;  // that the last requests took
};

}  // namespace serval::server
