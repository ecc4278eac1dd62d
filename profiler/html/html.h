// A self-contained page that shows a trace, or compares two: Gantt chart of all SMs, critical path, tables.
// It loads nothing else and works from a file, in any browser that has DecompressionStream (Chromium 80,
// Firefox 113, Safari 16.4). The page's own files are in viewer/; the build puts them into the library.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "profiler/report/report.h"
#include "profiler/trace/trace.h"

namespace serval {

struct HtmlTrace {
  std::string name;  // as shown on the page
  const Trace& trace;
  const Report& report;  // of that trace
};

inline constexpr size_t kMaxHtmlTraces = 2;

// The page of one trace, or of two to compare: first the earlier one. Throws Error(kRuntime) if a trace has
// no window. Thread-safe.
std::string to_html(std::span<const HtmlTrace> traces);
// Throws as to_html(), and Error(kRuntime) if the file cannot be written.
void write_html(std::span<const HtmlTrace> traces, const std::filesystem::path& path);

}  // namespace serval
