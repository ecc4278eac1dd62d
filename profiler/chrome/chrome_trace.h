// Traces as files, in the Trace Event Format that Perfetto and chrome://tracing read ("Trace Event Format",
// Google, the JSON object form).
//
// `traceEvents` is for viewers: process = GPU, thread = SM × role, complete events (X) for slices, flow
// events (s, f) for edges, counter events (C) for tracks. `serval` holds what they were made from, as arrays
// of numbers, and is what is read back: nothing is lost by rounding or by what a viewer leaves out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "profiler/trace/trace.h"
#include "vm/base/text_file.h"

namespace serval {

// Limits of a file that is read: a token of llama-3.1-70b on eight GPUs is 1.1 GB of text and 0.4 GB of
// memory.
struct TraceLimits {
  uint64_t text_bytes = uint64_t{8} << 30;
  uint64_t memory_bytes = uint64_t{2} << 30;  // of what is kept, without the room in which its lists grow
};

// The file's text.
std::string to_chrome_json(const Trace& trace);
// Throws Error(kRuntime), one line naming `name`, where and what, if the text is not JSON, not of the format
// (profiler/chrome/chrome_check.h), or its `serval` part does not check.
Trace from_chrome_json(std::string_view text, const std::string& name);
// As above, piece by piece: the text is never in memory as a whole. Exceptions of `text` pass through.
Trace from_chrome_json(const TextPieces& text, const std::string& name, const TraceLimits& limits = {});

// `.json`, or `.json.gz`, which is compressed. Both throw Error(kRuntime) naming the file. Reading looks at
// the content, not at the name, and refuses what exceeds TraceLimits.
void write_trace(const Trace& trace, const std::filesystem::path& path);
Trace read_trace(const std::filesystem::path& path);

}  // namespace serval
