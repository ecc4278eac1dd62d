// Names and numbers that writing and reading a trace file share.
#pragma once

#include <cstdint>

namespace serval::chrome {

inline constexpr uint32_t kFormat = 1;        // of what follows; grows when it changes
inline constexpr uint32_t kFirstProcess = 1;  // of rank 0
inline constexpr uint32_t kFirstThread = 1;

// Members of the file's object, behind traceEvents. Viewers do not look at them.
inline constexpr const char* kTraceMember = "serval";
// Lists of lists: what TraceInstruction, Execution (-1: no counter, never) and PageSample have, in order.
inline constexpr const char* kInstructionsMember = "servalInstructions";
inline constexpr const char* kExecutionsMember = "servalExecutions";
inline constexpr const char* kSamplesMember = "servalSamples";

}  // namespace serval::chrome
