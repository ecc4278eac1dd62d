// Names of the state's parts in a program's tensor table.
#pragma once

namespace serval::state_tensor {

inline constexpr const char* kRows = "state.rows";
inline constexpr const char* kSlots = "state.slots";
inline constexpr const char* kSampled = "state.sampled";
inline constexpr const char* kControl = "state.control";
inline constexpr const char* kOutput = "state.output";
inline constexpr const char* kHostStop = "state.host_stop";       // one word the host may set at any time
inline constexpr const char* kBlockTable = "state.block_table";   // int32 [sequences, blocks of a sequence]
inline constexpr const char* kAdjustments = "state.adjustments";  // of slots: biases and tokens
inline constexpr const char* kMasks = "state.masks";              // of slots: tokens that may be drawn
inline constexpr const char* kTop = "state.top";                  // likeliest tokens of rows
inline constexpr const char* kPooled = "state.pooled";            // of slots: pooled hidden states
inline constexpr const char* kAttention = "state.attention";      // AttentionList, with its items

}  // namespace serval::state_tensor
