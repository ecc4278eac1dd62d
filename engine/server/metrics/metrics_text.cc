#include "engine/server/metrics/metrics_text.h"

#include <algorithm>

#include "fmt/format.h"

namespace serval::server {
namespace {

std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out;
}

std::string shown(const MetricsText::Labels& labels, const MetricsText::Labels& more) {
  std::string text;
  for (const auto* list : {&labels, &more}) {
    for (const auto& [name, value] : *list)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  }
  return text.empty() ? text : "{" + text + "}";
}

}  // namespace

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  ++count_;
  sum_ += value;
}

void MetricsText::head(const std::string& name, const std::string& help, const char* type) {
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::line(const std::string& name, const Labels& more, double value) {
  text_ += fmt::format("{}{} {}\n", name, shown(labels_, more), value);
}

void MetricsText::gauge(const std::string& name, const std::string& help, double value) {
  head(name, help, "gauge");
  line(name, {}, value);
}

void MetricsText::counter(const std::string& name, const std::string& help, double value) {
  head(name, help, "counter");
  line(name, {}, value);
}

void MetricsText::counters(const std::string& name, const std::string& help, const std::string& label,
                           const std::map<std::string, uint64_t>& values) {
  head(name, help, "counter");
  for (const auto& [of, value] : values) line(name, {{label, of}}, static_cast<double>(value));
}

void MetricsText::histogram(const std::string& name, const std::string& help, const Histogram& histogram) {
  head(name, help, "histogram");
  uint64_t up_to = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    up_to += histogram.counts()[i];
    const bool last = i == histogram.bounds().size();
    line(name + "_bucket", {{"le", last ? "+Inf" : fmt::format("{}", histogram.bounds()[i])}},
         static_cast<double>(up_to));
  }
  line(name + "_sum", {}, histogram.sum());
  line(name + "_count", {}, static_cast<double>(histogram.count()));
}

}  // namespace serval::server
