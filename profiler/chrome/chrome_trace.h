// Traces as files, in the Trace Event Format that Perfetto and chrome://tracing read ("Trace Event Format",
// Google, the JSON object form).
//
// `traceEvents` is for viewers: process = GPU, thread = SM × role, complete events (X) for slices, flow
// events (s, f) for edges, counter events (C) for tracks. `serval` holds the trace itself as arrays of
// numbers. Reading takes the trace from there, so that rounding and what viewers leave out lose nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "profiler/trace/trace.h"
#include "vm/base/text_file.h"

namespace serval {

// Limits on what is read. A token of llama-3.1-70b on eight GPUs is 1.1 GB of text and 0.4 GB of memory.
struct TraceLimits {
  uint64_t text_bytes = uint64_t{8} << 30;
  uint64_t memory_bytes = uint64_t{2} << 30;  // of the lists' elements and the checks, without spare capacity
};

// The text of a trace file.
std::string to_chrome_json(const Trace& trace);
// Throws Error(kRuntime), one line that names `name`, the place and what is wrong, if the text is not JSON,
// not of the format (profiler/chrome/chrome_check.h), or its `serval` part is not a valid trace.
Trace from_chrome_json(std::string_view text, const std::string& name);
// Reads the text piece by piece: it is never in memory as a whole. Errors of `text` pass through.
Trace from_chrome_json(const TextPieces& text, const std::string& name, const TraceLimits& limits = {});

// The path ends in `.json`, or in `.json.gz` to compress. Both throw Error(kRuntime) naming the file. Reading
// recognises compression by the content, and refuses a file that exceeds TraceLimits.
void write_trace(const Trace& trace, const std::filesystem::path& path);
Trace read_trace(const std::filesystem::path& path);

}  // namespace serval
