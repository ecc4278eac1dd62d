#include "profiler/html/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/html/columns.h"
#include "profiler/html/data_block.h"
#include "tests/viewer/wave_trace.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using html::Columns;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kScriptEnd = "</script>";

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string refusal(const std::vector<HtmlTrace>& traces) {
  try {
    to_html(traces);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(HtmlColumns, TakeAsManyBytesAsTheLargestNumberNeeds) {
  Columns columns;
  columns.add("small", std::vector<uint64_t>{1, 255});
  columns.add("large", std::vector<uint64_t>{0x010203, 5});
  EXPECT_EQ(columns.bytes(), std::string("\x01\xff\x03\x05\x02\x00\x01\x00", 8));
  EXPECT_EQ(columns.descriptions()[0]["bytes"], 1);
  EXPECT_EQ(columns.descriptions()[1]["bytes"], 3);
}

TEST(HtmlColumns, StoreDifferencesZigzagCoded) {
  Columns columns;
  columns.add_differences("times", std::vector<int64_t>{3, 2, 4});
  EXPECT_EQ(columns.bytes(), std::string("\x06\x01\x04", 3));
}

TEST(HtmlColumns, ColumnsOfNothingTakeNoBytes) {
  Columns columns;
  columns.add("none", std::vector<uint64_t>{});
  columns.add_texts("no texts", std::vector<std::string>{});
  EXPECT_EQ(columns.bytes(), "");
  EXPECT_EQ(columns.descriptions()[0]["count"], 0);
}

TEST(HtmlColumns, RefuseWhatADoubleDoesNotHoldExactly) {
  Columns columns;
  columns.add("fits", std::vector<uint64_t>{(uint64_t{1} << 53) - 1});
  EXPECT_THROW(columns.add("does not", std::vector<uint64_t>{uint64_t{1} << 53}), Error);
}

TEST(Html, NothingOfATraceEndsTheElementThatHoldsIt) {
  const Trace trace = wave_trace({.tokens = 1}, "</script><!--");
  const Report report = report_of(trace);
  const std::string block = html::data_block({"</script>", trace, report});
  EXPECT_THAT(block, Not(HasSubstr("<")));
  EXPECT_THAT(block, HasSubstr("\\u003c/script>"));
}

TEST(Html, APageHasOneElementForEachTraceAndOneForTheirDifference) {
  const Trace trace = wave_trace({});
  const Report report = report_of(trace);
  const std::vector<HtmlTrace> one{{"a", trace, report}}, two{{"a", trace, report}, {"b", trace, report}};
  const std::string single = to_html(one), both = to_html(two);
  EXPECT_EQ(count(single, "<script type=\"application/x-serval-trace\">"), 1U);
  EXPECT_EQ(count(single, "<script type=\"application/x-serval-diff\">"), 0U);
  EXPECT_EQ(count(both, "<script type=\"application/x-serval-trace\">"), 2U);
  EXPECT_EQ(count(both, "<script type=\"application/x-serval-diff\">"), 1U);
  EXPECT_EQ(count(both, kScriptEnd), count(single, kScriptEnd) + 2);
}

TEST(Html, TheSameTraceGivesTheSamePage) {
  const Trace trace = wave_trace({});
  const Report report = report_of(trace);
  const HtmlTrace page{"wave", trace, report};
  EXPECT_EQ(to_html({&page, 1}), to_html({&page, 1}));
}

// By track: where the page draws a line.
std::map<std::string, double> limits_of(const Trace& trace, const Report& report) {
  const std::string block = html::data_block({"wave", trace, report});
  const auto head = nlohmann::json::parse(block.substr(0, block.find('\n')));
  std::map<std::string, double> limits;
  for (const auto& track : head["tracks"]) limits[track["name"]] = track["limit"];
  return limits;
}

TEST(Html, TracksHaveTheLimitsOfTheReport) {
  const Trace trace = wave_trace({.ranks = 2, .operations = 400'000});
  const Report report = report_of(trace);
  EXPECT_GT(report.limit_gb_per_s, 0);
  EXPECT_GT(report.limit_tflop_per_s, 0);
  EXPECT_EQ(limits_of(trace, report), (std::map<std::string, double>{{"GB/s", report.limit_gb_per_s},
                                                                     {"TFLOP/s", report.limit_tflop_per_s},
                                                                     {"busy SMs", 0},
                                                                     {"GPU 0 out GB/s", 0},
                                                                     {"GPU 1 out GB/s", 0}}));
}

TEST(Html, LimitsThatAreNotKnownOrFarAboveAreNotDrawn) {
  Trace trace = wave_trace({.operations = 1'000});
  EXPECT_EQ(limits_of(trace, report_of(trace)).at("TFLOP/s"), 0) << "a thousandth of it";
  trace = wave_trace({.operations = 400'000});
  trace.source = TraceSource::kHost;
  EXPECT_EQ(limits_of(trace, report_of(trace)).at("GB/s"), 0);
  EXPECT_EQ(limits_of(trace, report_of(trace)).at("TFLOP/s"), 0);
}

TEST(Html, RefusesNoTraceThreeTracesAndATraceWithoutAToken) {
  const Trace trace = wave_trace({});
  const Report report = report_of(trace);
  const HtmlTrace page{"wave", trace, report};
  EXPECT_THAT(refusal({}), HasSubstr("0 traces; a page shows 1 to 2"));
  EXPECT_THAT(refusal({page, page, page}), HasSubstr("3 traces; a page shows 1 to 2"));
  Trace empty = trace;
  empty.windows.clear();
  EXPECT_THAT(refusal({{"empty", empty, report}}), HasSubstr("empty: the trace has no complete pass"));
}

TEST(Html, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const Trace trace = wave_trace({});
  const Report report = report_of(trace);
  const HtmlTrace page{"wave", trace, report};
  try {
    write_html({&page, 1}, "/nowhere/page.html");
    FAIL() << "it was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/page.html: cannot be written: No such file or directory"));
  }
}

}  // namespace
}  // namespace serval
