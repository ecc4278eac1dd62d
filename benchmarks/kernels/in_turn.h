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

// Median milliseconds of each piece of work: in each round all of them, one after another, each for about
// `round_ms` (or once).
inline std::vector<double> in_turn(const std::vector<Work>& works, double round_ms = 40,
                                   uint32_t rounds = 7) {
  const CudaStream stream;
  std::vector<uint32_t> times;
  for (const Work& work : works) {
    milliseconds_of(work, 2, stream);  // warms up
    times.push_back(static_cast<uint32_t>(std::max(1.0, round_ms / milliseconds_of(work, 2, stream))));
  }
  std::vector<std::vector<double>> all(works.size());
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) all[i].push_back(milliseconds_of(works[i], times[i], stream));
  }
  std::vector<double> medians;
  for (std::vector<double>& ms : all) {
    std::nth_element(ms.begin(), ms.begin() + rounds / 2, ms.end());
    medians.push_back(ms[rounds / 2]);
  }
  return medians;
}

}  // namespace serval::benchmarks
