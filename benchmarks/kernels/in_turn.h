// Times two or more pieces of GPU work in turn, so that clocks and power treat them alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "vm/device/cuda_resources.h"

namespace serval::benchmarks {

using Work = std::function<void(cudaStream_t)>;

inline double milliseconds_of(const Work& work, uint32_t times, const CudaStream& stream) {
  const CudaEvent begin, end;
  begin.record(stream);
  for (uint32_t i = 0; i < times; ++i) work(stream.get());
  end.record(stream);
  end.wait();
  return CudaEvent::milliseconds(begin, end) / times;
}

struct Pace {
  double timed_ms = 40;   // of a piece of work in a round (or one run)
  double lead_in_ms = 0;  // it runs so long before, untimed: clocks then depend on its own power, not on the
                          // power of the work before
  uint32_t rounds = 7;
};

// Median milliseconds of each piece of work: in each round all of them, one after another, every second round
// in reverse order.
inline std::vector<double> in_turn(const std::vector<Work>& works, const Pace& pace = {}) {
  const CudaStream stream;
  std::vector<double> once;
  for (const Work& work : works) {
    milliseconds_of(work, 2, stream);  // warms up
    once.push_back(milliseconds_of(work, 2, stream));
  }
  const auto times = [&](double ms, size_t i) { return static_cast<uint32_t>(std::max(1.0, ms / once[i])); };
  std::vector<std::vector<double>> all(works.size());
  for (uint32_t round = 0; round < pace.rounds; ++round) {
    for (size_t place = 0; place < works.size(); ++place) {
      const size_t i = round % 2 == 0 ? place : works.size() - 1 - place;
      for (uint32_t n = 0; pace.lead_in_ms > 0 && n < times(pace.lead_in_ms, i); ++n) works[i](stream.get());
      all[i].push_back(milliseconds_of(works[i], times(pace.timed_ms, i), stream));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& ms : all) {
    std::nth_element(ms.begin(), ms.begin() + pace.rounds / 2, ms.end());
    medians.push_back(ms[pace.rounds / 2]);
  }
  return medians;
}

}  // namespace serval::benchmarks
