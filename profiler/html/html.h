// One self-contained page that shows a trace, or compares two: Gantt of all SMs, critical path, tables. It
// fetches nothing and works from a file, in any browser that has DecompressionStream (Chromium 80, Firefox
// 113, Safari 16.4). The page's own files are in viewer/; the build puts them into the library.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "profiler/report/report.h"
#include "profiler/trace/trace.h"

namespace serval {

struct HtmlTrace {
  std::string name;  // as the page calls it
  const Trace& trace;
  const Report& report;  // of that trace
};

inline constexpr size_t kMaxHtmlTraces = 2;

// Writes the page of one trace, or of two to compare, the earlier one first. Throws Error(kRuntime) if a
// trace has no window. Thread-safe.
std::string to_html(std::span<const HtmlTrace> traces);
// Throws Error(kRuntime) also if the file cannot be written.
void write_html(std::span<const HtmlTrace> traces, const std::filesystem::path& path);

}  // namespace serval
