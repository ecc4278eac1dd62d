// What serval bench --requests asks of the engine: how many tokens, and when.
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

// `count` sizes. `lengths`: empty, all alike; a number, the seed of exponentially distributed ones with the
// means of `mean`, 1 or more each; else a file with a pair a line, "INPUT OUTPUT", which is used from the
// beginning again where it has fewer. Throws Error(kRuntime) naming the file and line that cannot be used.
std::vector<RequestSize> request_sizes(const std::string& lengths, int count, const RequestSize& mean);

// Seconds from the beginning at which `count` requests arrive: all at 0 where `rate` is 0, else `rate` a
// second on average, independently of one another (a Poisson process).
std::vector<double> arrival_times(int count, double rate, uint64_t seed);

// Token ids that differ from each other and from those of other prompts; the same in every run.
std::vector<int32_t> made_up_prompt(int tokens, int vocab_size, uint64_t number = 0);

}  // namespace serval::cli
