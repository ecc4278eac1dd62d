// The number of cases in one run: a sample by default, more if the environment says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/sample.h"

namespace serval::testing {

// The number in an environment variable, else as much of `sample` as long tests run.
inline uint32_t campaign_size(const char* variable, uint32_t sample) {
  const char* text = std::getenv(variable);
  return text == nullptr ? sampled(sample) : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// Calls fn(i) once for each i in [0, count), on all cores. fn(i) must depend on i alone.
template <class Fn>
void for_each_seed(uint32_t count, Fn&& fn) {
  std::atomic<uint32_t> next{0};
  std::vector<std::jthread> threads;
  for (uint32_t t = std::max(1U, std::thread::hardware_concurrency()); t > 0; --t) {
    threads.emplace_back([&] {
      for (uint32_t i = next++; i < count; i = next++) fn(i);
    });
  }
}

}  // namespace serval::testing
