#include "profiler/sim/memory.h"

#include <algorithm>
#include <vector>

namespace serval::sim {
namespace {

constexpr double kBytesPerUs = 1e3;  // at a rate of 1e9 bytes a second

// The measurement's bytes in flight, in microseconds at the highest rate measured.
double queued_us(const SimParameters& p, const LoadPoint& point) {
  return point.in_flight_bytes * p.under_load_sms / (p.under_load.back().gb_per_s * kBytesPerUs);
}

// Bytes in flight are answered at the measured rate, so a request takes the bytes divided by the rate. The
// first point has no bytes in flight and is left out: at a lower load than the second's, a request takes as
// long as at the second.
Curve response_curve(const SimParameters& p) {
  std::vector<Curve::Point> points;
  for (const LoadPoint& point : p.under_load) {
    if (point.in_flight_bytes == 0) continue;
    const double us = point.in_flight_bytes * p.under_load_sms / (point.gb_per_s * kBytesPerUs);
    points.push_back({queued_us(p, point), us});
  }
  // Memory does not exceed its bandwidth, even with a small latency.
  for (Curve::Point& point : points) point.y = std::max(point.x, point.y * p.latency_factor);
  const Curve::Point last = points.back();
  points.push_back({last.x + 1, last.y + 1});
  return Curve(std::move(points));
}

}  // namespace

Hbm::Hbm(const SimParameters& parameters)
    : bytes_per_us_(parameters.gb_per_s * kBytesPerUs), response_(response_curve(parameters)) {
  update_response();
}

void Hbm::advance(double now) {
  clock_ += (now - clock_at_) / response_us_;
  clock_at_ = now;
}

void Hbm::update_response() {
  response_us_ = response_(queued_us());
}

void Hbm::request(double now, uint32_t bytes, Requester requester) {
  advance(now);
  requests_.push_back({clock_ + 1, bytes, requester});
  bytes_ += bytes;
  update_response();
}

std::optional<double> Hbm::next_answer() const {
  if (requests_.empty()) return std::nullopt;
  return clock_at_ + std::max(0.0, requests_.front().end - clock_) * response_us_;
}

Requester Hbm::answer(double now) {
  advance(now);
  const Request request = requests_.front();
  requests_.pop_front();
  clock_ = request.end;  // without the rounding error
  bytes_ -= request.bytes;
  if (requests_.empty()) clock_ = 0;
  update_response();
  return request.requester;
}

L2::L2(const SimParameters& parameters) : bytes_per_us_(parameters.l2_gb_per_s * kBytesPerUs) {}

double L2::read(double now, uint64_t bytes, double latency_us) {
  free_at_ = std::max(free_at_, now) + static_cast<double>(bytes) / bytes_per_us_;
  return free_at_ + latency_us;
}

Curve round_curve(const SimParameters& p) {
  std::vector<Curve::Point> points;
  for (const LoadPoint& point : p.under_load)
    points.push_back({queued_us(p, point), point.round_us * p.round_factor});
  return Curve(std::move(points));
}

}  // namespace serval::sim
