#include "engine/server/service/admission.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace serval::server {
namespace {

// The engine gets 1/4 more answers than it can run, so that another starts as soon as one ends. A larger part
// would be less fair: requests here cannot overtake those in the engine.
constexpr uint32_t kPartAhead = 4;
constexpr int kMostRetryAfter_s = 60;
constexpr double kWeightOfLast = 0.1;

}  // namespace

void Admission::open(Engine& engine, std::shared_ptr<EventPump> pump) {
  engine_ = &engine;
  pump_ = std::move(pump);
  const auto running = static_cast<uint32_t>(engine.info().max_sequences);
  max_in_engine_ = running + std::max(1U, running / kPartAhead);
  start_next();
}

void Admission::close() {
  engine_ = nullptr;
  max_in_engine_ = 0;
}

int Admission::retry_after_s() const {
  const double each = average_s_ / std::max(1U, max_in_engine_);
  const double seconds = std::ceil(each * static_cast<double>(waiting()));
  return static_cast<int>(std::clamp(seconds, 1.0, static_cast<double>(kMostRetryAfter_s)));
}

void Admission::reserve() {
  const uint32_t in_engine = queue_.in_engine();
  const uint32_t free = max_in_engine_ > in_engine ? max_in_engine_ - in_engine : 0;
  if (waiting() >= size_t{max_queue_} + free) {
    ApiError error(429, "queue_full",
                   fmt::format("{} requests are waiting already; limit: {}", waiting(), max_queue_));
    error.retry_after_s = retry_after_s();
    throw error;
  }
  ++preparing_;
}

void Admission::add(const std::shared_ptr<Generation>& generation) {
  generations_.emplace(generation->ticket().id, generation);
  queue_.push(generation->ticket());
  generation->listen();
  start_next();
}

void Admission::start_next() {
  while (engine_ != nullptr && queue_.in_engine() < max_in_engine_) {
    const auto number = queue_.pop();
    if (!number) return;
    const auto generation = generations_.at(*number);
    generation->start(*engine_, *pump_);
  }
}

void Admission::on_end(Generation& generation) {
  if (!queue_.erase(generation.ticket())) queue_.end(generation.ticket());
  average_s_ += kWeightOfLast * (generation.record().total_s - average_s_);
  generations_.erase(generation.ticket().id);
  start_next();
}

void Admission::check_time(Generation::Clock::time_point now, std::chrono::milliseconds silence) {
  const auto all = generations_;  // a copy: fail() and keep_alive() may erase from generations_
  for (const auto& [number, generation] : all) {
    if (!generation->started() && generation->deadline() && *generation->deadline() <= now)
      generation->fail({504, "timeout", "the request waited longer than the server's limit"});
    else
      generation->keep_alive(now, silence);
  }
}

void Admission::fail_all(const ApiError& error) {
  const auto all = generations_;
  for (const auto& [number, generation] : all) generation->fail(error);
}

}  // namespace serval::server
