// The workload of serval bench --requests: request sizes and arrival times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace serval::cli {

struct RequestSize {
  int input = 1;   // tokens of the prompt
  int output = 1;  // tokens to generate
  friend bool operator==(const RequestSize&, const RequestSize&) = default;
};

// `count` sizes. `lengths` is empty: all are `mean`; a number: the seed of exponentially distributed sizes
// with these means, each at least 1; otherwise: a file with one pair per line, "INPUT OUTPUT", repeated from
// the beginning if it has fewer. Throws Error(kRuntime) naming the file and the line if it is invalid.
std::vector<RequestSize> request_sizes(const std::string& lengths, int count, const RequestSize& mean);

// Arrival times of `count` requests in seconds from the start: all 0 if `rate` is 0, else a Poisson process
// with `rate` arrivals per second.
std::vector<double> arrival_times(int count, double rate, uint64_t seed);

// Pseudo-random token ids. Prompts of different numbers differ; every run gives the same ids.
std::vector<int32_t> made_up_prompt(int tokens, int vocab_size, uint64_t number = 0);

}  // namespace serval::cli
