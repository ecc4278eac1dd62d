// HBM and L2, shared by all SMs.
//
// The load is stated as `queued`: the microseconds that memory needs for all bytes in flight, at its full
// rate.
// The time of a request and the time of a synchronisation round are functions of it. They were measured as
// such, and with another bandwidth the same functions are used.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "profiler/sim/curve.h"
#include "profiler/sim/parameters.h"

namespace serval::sim {

// The role that a request is for.
struct Requester {
  uint32_t sm;
  bool page;  // a page of the ring; else a part of a group instruction's data
};

// All requests in flight progress at the same rate, so they are answered in the order in which they were
// made.
// The rate is 1 / `response` at the load of the moment.
class Hbm {
 public:
  explicit Hbm(const SimParameters& parameters);

  void request(double now, uint32_t bytes, Requester requester);
  // When the oldest request is answered, if no other comes before; none if nothing is in flight.
  std::optional<double> next_answer() const;
  // Removes the oldest request, at next_answer().
  Requester answer(double now);

  double queued_us() const { return static_cast<double>(bytes_) / bytes_per_us_; }

 private:
  struct Request {
    double end;  // value of `clock_` at which it is answered
    uint32_t bytes;
    Requester requester;
  };
  void advance(double now);
  void update_response();

  double bytes_per_us_;
  Curve response_;          // [queued_us] time of a request
  double response_us_ = 0;  // at the present load
  double clock_ = 0;        // progress of requests: one is answered when this has increased by 1
  double clock_at_ = 0;     // time at which `clock_` had this value
  uint64_t bytes_ = 0;      // in flight
  std::deque<Request> requests_;
};

// Reads of data that L2 has already: one transfer after the other; the first byte comes after a latency.
class L2 {
 public:
  explicit L2(const SimParameters& parameters);
  // When all of `bytes` have arrived.
  double read(double now, uint64_t bytes, double latency_us);

 private:
  double bytes_per_us_;
  double free_at_ = 0;
};

// [queued_us] microseconds of a synchronisation round.
Curve round_curve(const SimParameters& parameters);

}  // namespace serval::sim
