// How the server is doing, as load balancers and operators ask.
#pragma once

#include <cstdint>
#include <string>

#include "engine/server/http/message.h"

namespace serval::server {

class Status {
 public:
  enum class State { kLoading, kServing, kDraining, kRed };

  State state() const { return state_; }
  // Unless it drains or is red.
  void load(const char* stage, uint64_t done, uint64_t total);
  void serve() { state_ = State::kServing; }
  void drain() { state_ = State::kDraining; }
  void turn_red(const std::string& why);

  HttpResponse health() const;  // 200 also while draining, 503 while loading and when red
  HttpResponse ready() const;   // 200 only while requests are taken
  // Throws ApiError (503) unless requests are taken.
  void check_serving() const;

 private:
  State state_ = State::kLoading;
  std::string stage_ = "model";
  double progress_ = 0;  // of the stage, 0 to 1
  std::string fault_;
};

}  // namespace serval::server
