// Writes the pages that tests open in a browser: viewer_pages FOLDER [small|large].
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "profiler/analysis/slices.h"
#include "profiler/html/html.h"
#include "tests/viewer/wave_trace.h"
#include "vm/base/error.h"

namespace serval {
namespace {

// A name that tries to get out of its place in the page.
constexpr const char* kHostile =
    "</script><script>window.broken=1</script><!--<img src=x onerror=window.broken=2>&amp;\"'";

Report report_with_savings(const Trace& trace) {
  Report report = report_of(trace);
  report.savings = {{"one counter round a layer fewer", 300}, {"four pages more", 120}};
  return report;
}

void write_one(const Trace& trace, const std::string& name, const std::filesystem::path& path) {
  const Report report = report_with_savings(trace);
  const HtmlTrace page{name, trace, report};
  write_html({&page, 1}, path);
}

void write_two(const Trace& before, const Trace& after, const std::filesystem::path& path) {
  const Report reports[] = {report_with_savings(before), report_with_savings(after)};
  const HtmlTrace pages[] = {{"runs/before.json", before, reports[0]},
                             {"runs/after.json", after, reports[1]}};
  write_html(pages, path);
}

// As the host interpreter records it: nobody fetches, nobody loads pages.
Trace without_loader(Trace trace) {
  for (Execution& x : trace.executions) {
    for (size_t kind = 0; kind < kNumEventKinds; ++kind) {
      const SmRole role = kEventInfos[kind].role;
      if (role == SmRole::kController || role == SmRole::kLoader) x.at[kind] = kNever;
    }
  }
  trace.source = TraceSource::kHost;
  return trace;
}

void write_small(const std::filesystem::path& folder) {
  const Trace trace = wave_trace({});
  write_one(trace, "wave", folder / "one.html");
  write_one(without_loader(trace), "host", folder / "host.html");
  write_one(wave_trace({.ranks = 2}), "ranks", folder / "ranks.html");
  write_one(wave_trace({.operations = 400'000}), "tiles", folder / "tiles.html");
  write_two(trace, wave_trace({.compute_ns = 300}), folder / "two.html");
  Trace hostile = wave_trace({.tokens = 1, .slow_token = 0}, kHostile);
  hostile.metadata["model"] = kHostile;
  write_one(hostile, kHostile, folder / "hostile.html");
}

// A token of 200,000 slices, all of them in view when the page opens.
void write_large(const std::filesystem::path& folder) {
  const Trace trace = wave_trace({.sms = 132, .layers = 88, .tokens = 1});
  std::printf("%zu slices\n", slices_of(trace).size());
  write_one(trace, "large", folder / "large.html");
}

int run(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::fputs("usage: viewer_pages FOLDER [small|large]\n", stderr);
    return 2;
  }
  const bool large = count == 3 && std::strcmp(arguments[2], "large") == 0;
  large ? write_large(arguments[1]) : write_small(arguments[1]);
  return 0;
}

}  // namespace
}  // namespace serval

int main(int count, char** arguments) {
  try {
    return serval::run(count, arguments);
  } catch (const serval::Error& error) {
    std::fprintf(stderr, "viewer_pages: %s\n", error.what());
    return error.exit_code();
  }
}
