// Traces as files, in the Trace Event Format that Perfetto and chrome://tracing read ("Trace Event Format",
// Google, the JSON object form).
//
// `traceEvents` is for viewers: process = GPU, thread = SM × role, complete events (X) for slices, flow
// events (s, f) for edges, counter events (C) for tracks. `serval` holds what they were made from, as arrays
// of numbers, and is what is read back: nothing is lost by rounding or by what a viewer leaves out.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "profiler/trace/trace.h"

namespace serval {

// The file's text.
std::string to_chrome_json(const Trace& trace);
// Throws Error(kRuntime), one line naming `name`, where and what, if the text is not JSON, not of the format
// (profiler/chrome/chrome_check.h), or its `serval` part does not check.
Trace from_chrome_json(std::string_view text, const std::string& name);

// `.json`, or `.json.gz`, which is compressed. Both throw Error(kRuntime) naming the file. Reading looks at
// the content, not at the name, and refuses more than kMaxTraceBytes of text.
inline constexpr uint64_t kMaxTraceBytes = uint64_t{1} << 30;
void write_trace(const Trace& trace, const std::filesystem::path& path);
Trace read_trace(const std::filesystem::path& path);

}  // namespace serval
