// The server's state, for /health and /ready.
#pragma once

#include <cstdint>
#include <string>

#include "engine/server/http/message.h"

namespace serval::server {

class Status {
 public:
  enum class State { kLoading, kServing, kDraining, kRed };

  State state() const { return state_; }
  // Sets the progress that /health shows while loading.
  void load(const char* stage, uint64_t done, uint64_t total);
  void serve() { state_ = State::kServing; }
  void drain() { state_ = State::kDraining; }
  void turn_red(const std::string& why);

  HttpResponse health() const;  // 200 while serving or draining, 503 while loading or red
  HttpResponse ready() const;   // 200 while serving, else 503
  // Throws ApiError (503) unless the state is kServing.
  void check_serving() const;

 private:
  State state_ = State::kLoading;
  std::string stage_ = "model";
  double progress_ = 0;  // of the stage, 0 to 1
  std::string fault_;
};

}  // namespace serval::server
