#include "engine/server/service/status.h"

#include "engine/server/api/api_error.h"
#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

constexpr int kUnavailable = 503;

[[noreturn]] void refuse(const char* code, const std::string& why) {
  ApiError error(kUnavailable, code, why);
  error.retry_after_s = 1;
  throw error;
}

}  // namespace

void Status::load(const char* stage, uint64_t done, uint64_t total) {
  stage_ = stage;
  progress_ = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
}

void Status::turn_red(const std::string& why) {
  state_ = State::kRed;
  fault_ = why;
}

HttpResponse Status::health() const {
  switch (state_) {
    case State::kLoading:
      return {.status = kUnavailable,
              .body = json_text({{"status", "loading"}, {"stage", stage_}, {"progress", progress_}})};
    case State::kRed:
      return {.status = kUnavailable, .body = json_text({{"status", "red"}, {"error", fault_}})};
    case State::kDraining:
      return {.body = json_text({{"status", "draining"}})};
    case State::kServing:
      break;
  }
  return {.body = json_text({{"status", "ok"}})};
}

HttpResponse Status::ready() const {
  if (state_ == State::kServing) return {.body = json_text({{"ready", true}})};
  return {.status = kUnavailable, .body = json_text({{"ready", false}})};
}

void Status::check_serving() const {
  switch (state_) {
    case State::kServing:
      return;
    case State::kLoading:
      refuse("loading", "the model is still loading; /health shows the progress");
    case State::kDraining:
      refuse("shutting_down", "the server is shutting down and accepts no requests");
    case State::kRed:
      refuse("engine_error", "the engine has failed: " + fault_);
  }
}

}  // namespace serval::server
