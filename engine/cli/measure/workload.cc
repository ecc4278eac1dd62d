#include "engine/cli/measure/workload.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>

#include "fmt/format.h"

#include "engine/cli/input/prompts.h"
#include "models/model.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

// Uses the inverse of the distribution function, so that a seed gives the same numbers with every standard
// library.
class Exponential {
 public:
  explicit Exponential(uint64_t seed) : random_(seed) {}
  double operator()(double mean) {
    constexpr double kSteps = 0x1p53;
    const double uniform = static_cast<double>(random_() >> 11) / kSteps;  // [0, 1)
    return -mean * std::log1p(-uniform);
  }

 private:
  std::mt19937_64 random_;
};

int drawn_length(Exponential& random, int mean) {
  return 1 + static_cast<int>(std::min(random(mean - 1), static_cast<double>(ConfigLimits::kMaxPosition)));
}

RequestSize parse_pair(const std::string& file, size_t line, const std::string& text) {
  std::istringstream words(text);
  RequestSize size;
  std::string rest;
  const bool two = static_cast<bool>(words >> size.input >> size.output);
  const auto in_range = [](int tokens) { return tokens >= 1 && tokens <= ConfigLimits::kMaxPosition; };
  if (two && in_range(size.input) && in_range(size.output) && !(words >> rest)) return size;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: line {}: expected two numbers of tokens, 1 to {}, as 'INPUT OUTPUT'", file,
                          line, ConfigLimits::kMaxPosition));
}

std::vector<RequestSize> read_pairs(const std::string& file) {
  std::istringstream lines(read_all(file));
  std::vector<RequestSize> sizes;
  std::string text;
  for (size_t line = 1; std::getline(lines, text); ++line) {
    if (text.find_first_not_of(" \t\r") != std::string::npos) sizes.push_back(parse_pair(file, line, text));
  }
  if (sizes.empty()) throw Error(ErrorKind::kRuntime, fmt::format("{}: holds no pair of lengths", file));
  return sizes;
}

}  // namespace

std::vector<RequestSize> request_sizes(const std::string& lengths, int count, const RequestSize& mean) {
  std::vector<RequestSize> sizes;
  const bool is_seed = lengths.find_first_not_of("0123456789") == std::string::npos;
  if (lengths.empty()) {
    sizes.assign(static_cast<size_t>(count), mean);
  } else if (is_seed) {
    Exponential random(std::strtoull(lengths.c_str(), nullptr, 10));
    while (sizes.size() < static_cast<size_t>(count)) {
      const int input = drawn_length(random, mean.input);
      sizes.push_back({input, drawn_length(random, mean.output)});
    }
  } else {
    const std::vector<RequestSize> pairs = read_pairs(lengths);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) sizes.push_back(pairs[i % pairs.size()]);
  }
  return sizes;
}

std::vector<double> arrival_times(int count, double rate, uint64_t seed) {
  std::vector<double> times;
  Exponential random(seed);
  double now = 0;
  for (int i = 0; i < count; ++i) {
    times.push_back(now);
    if (rate > 0) now += random(1 / rate);
  }
  return times;
}

std::vector<int32_t> made_up_prompt(int tokens, int vocab_size, uint64_t number) {
  constexpr uint64_t kMultiplier = 6364136223846793005;  // Knuth's MMIX generator
  constexpr uint64_t kIncrement = 1442695040888963407;
  uint64_t state = 1 + number * kIncrement;
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) {
    state = state * kMultiplier + kIncrement;
    ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size)));
  }
  return ids;
}

}  // namespace serval::cli
