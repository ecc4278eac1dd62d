// HBM and L2, shared by all SMs.
//
// Load is stated as `queued`: microseconds that memory needs for all bytes that are in flight, at its full
// rate. How long a request takes, and how long a round of synchronisation, are functions of it: so they were
// measured, and so they can be asked for another bandwidth.
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
  bool page;  // a page of the ring; else a part of what a group instruction reads
};

// Requests in flight take the same share of the work per byte, so they are answered in the order in which
// they were made; each takes what `response` says for the load that it meets, integrated over its time.
class Hbm {
 public:
  explicit Hbm(const SimParameters& parameters);

  void request(double now, uint32_t bytes, Requester requester);
  // When the oldest request is answered if none comes before that; none if nothing is in flight.
  std::optional<double> next_answer() const;
  // Takes the oldest request, at next_answer().
  Requester answer(double now);

  double queued_us() const { return static_cast<double>(bytes_) / bytes_per_us_; }

 private:
  struct Request {
    double end;  // on the clock below
    uint32_t bytes;
    Requester requester;
  };
  void advance(double now);
  void update_response();

  double bytes_per_us_;
  Curve response_;          // [queued_us] of a request
  double response_us_ = 0;  // at the load there is
  double clock_ = 0;        // a request is answered when this has gone on by 1
  double clock_at_ = 0;     // time at which the clock stood there
  uint64_t bytes_ = 0;      // in flight
  std::deque<Request> requests_;
};

// Reads of data that is already in L2: one transfer after the other, and the first byte comes after a
// latency.
class L2 {
 public:
  explicit L2(const SimParameters& parameters);
  // When all of `bytes` are there.
  double read(double now, uint64_t bytes, double latency_us);

 private:
  double bytes_per_us_;
  double free_at_ = 0;
};

// Microseconds of a round of synchronisation, by queued_us.
Curve round_curve(const SimParameters& parameters);

}  // namespace serval::sim
