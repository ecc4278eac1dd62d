// Metrics in Prometheus' text format (version 0.0.4: prometheus.io/docs/instrumenting/exposition_formats).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace serval::server {

// Counts observations in buckets with upper bounds. Not thread-safe.
class Histogram {
 public:
  // `bounds` ascend. A last bucket without a bound is added.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

  void observe(double value);
  std::span<const double> bounds() const { return bounds_; }
  std::span<const uint64_t> counts() const { return counts_; }  // per bucket, not cumulative
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ = 0;
};

// Writes metrics one after another. Each line has the common labels first, then its own.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  explicit MetricsText(Labels labels) : labels_(std::move(labels)) {}

  void gauge(const std::string& name, const std::string& help, double value);
  void counter(const std::string& name, const std::string& help, double value);
  // One counter for each value of `label`.
  void counters(const std::string& name, const std::string& help, const std::string& label,
                const std::map<std::string, uint64_t>& values);
  void histogram(const std::string& name, const std::string& help, const Histogram& histogram);
  std::string take() { return std::move(text_); }

 private:
  void head(const std::string& name, const std::string& help, const char* type);
  void line(const std::string& name, const Labels& more, double value);

  const Labels labels_;
  std::string text_;
};

}  // namespace serval::server
