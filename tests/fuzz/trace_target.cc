// Fuzzes trace files, compressed or not. A trace that can be read can be written, drawn, reported and
// compared.
#include "profiler/analysis/edges.h"
#include "profiler/analysis/slices.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/chrome/gzip.h"
#include "profiler/report/diff.h"
#include "profiler/report/report.h"
#include "profiler/trace/trim.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/text_pieces.h"

namespace serval::fuzz {
namespace {

Trace read(std::string_view bytes) {
  constexpr TraceLimits kLimits = {.text_bytes = uint64_t{1} << 20, .memory_bytes = uint64_t{1} << 26};
  constexpr size_t kPiece = 7;  // so small that most values are split between two pieces
  const TextPieces pieces = testing::pieces_of(bytes, kPiece);
  if (!is_gzip(bytes)) return from_chrome_json(pieces, "file", kLimits);
  Gunzip data(pieces, kLimits.text_bytes, "file");
  return from_chrome_json([&] { return data.next(); }, "file", kLimits);
}

void check_slices(const Trace& trace) {
  const std::vector<Slice> slices = slices_of(trace);
  for (const PassWindow& window : trace.windows) {
    for (const StateTimes& times : state_times(trace, slices, window))
      require(times[static_cast<size_t>(SliceState::kIdle)] >= 0, "no role is in two states at once");
  }
}

void check_report(const Trace& trace) {
  const Report report = report_of(trace);
  require(!to_text(report).empty() && !to_json(report).empty(), "a report can be printed");
  require(!to_text(diff_of(report, report)).empty(), "reports can be compared");
}

void check(const Trace& trace) {
  for (const Edge& edge : edges_of(trace))
    require(edge.from < trace.executions.size() && edge.to < trace.executions.size(), "edges are in range");
  check_slices(trace);
  accepts([&] { check_report(trace); });  // may be refused: instructions may wait for each other in a cycle
  const std::string text = to_chrome_json(trace);
  require(to_chrome_json(from_chrome_json(text, "again")) == text,
          "a trace does not change by writing and reading it");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval;
  using namespace serval::fuzz;
  Trace trace;
  if (accepts([&] { trace = read(text_of(data, size)); })) check(trace);
  return 0;
}
