// Names and numbers that writing and reading a trace file share.
#pragma once

#include <cstdint>

namespace serval::chrome {

inline constexpr uint32_t kFormat = 1;        // version of the members below; increased when they change
inline constexpr uint32_t kFirstProcess = 1;  // of rank 0
inline constexpr uint32_t kFirstThread = 1;

// Members of the file's object, after traceEvents. Viewers ignore them.
inline constexpr const char* kTraceMember = "serval";
// Lists of lists: the members of TraceInstruction, Execution (-1: no counter, never) and PageSample, in
// order.
inline constexpr const char* kInstructionsMember = "servalInstructions";
inline constexpr const char* kExecutionsMember = "servalExecutions";
inline constexpr const char* kSamplesMember = "servalSamples";

}  // namespace serval::chrome
