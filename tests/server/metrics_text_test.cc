#include "engine/server/metrics/metrics_text.h"

#include "gtest/gtest.h"

namespace serval::server {
namespace {

TEST(MetricsText, IsPrometheusTextFormat) {
  MetricsText text(MetricsText::Labels{{"model", "a\"b\\c\nd"}});
  text.gauge("up", "How many.", 1.5);
  text.counters("ended", "By reason.", "reason", {{"length", 2}, {"stop", 1}});
  EXPECT_EQ(text.take(),
            "# HELP up How many.\n# TYPE up gauge\nup{model=\"a\\\"b\\\\c\\nd\"} 1.5\n"
            "# HELP ended By reason.\n# TYPE ended counter\n"
            "ended{model=\"a\\\"b\\\\c\\nd\",reason=\"length\"} 2\n"
            "ended{model=\"a\\\"b\\\\c\\nd\",reason=\"stop\"} 1\n");
}

TEST(MetricsText, AHistogramsBucketsCountAllBelowTheirBounds) {
  constexpr double kBounds[] = {0.5, 1};
  Histogram histogram(kBounds);
  for (const double value : {0.1, 0.5, 0.7, 3.0}) histogram.observe(value);
  MetricsText text(MetricsText::Labels{});
  text.histogram("h", "x", histogram);
  EXPECT_EQ(text.take(),
            "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"0.5\"} 2\nh_bucket{le=\"1\"} 3\n"
            "h_bucket{le=\"+Inf\"} 4\nh_sum 4.3\nh_count 4\n");
}

}  // namespace
}  // namespace serval::server
