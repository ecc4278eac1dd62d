// What the parameters of a request may be, beside sampling parameters within instructions/sample/ranges.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace serval::server::api_limit {

inline constexpr size_t kStopStrings = 16;
inline constexpr size_t kStopBytes = 1024;
inline constexpr size_t kStopTokens = 16;
inline constexpr size_t kLogitBiases = 1024;
inline constexpr size_t kPrompts = 128;
inline constexpr int kAnswers = 128;  // n; and of all prompts together
inline constexpr size_t kMessages = 4096;
inline constexpr size_t kContentParts = 1024;
inline constexpr size_t kNameBytes = 256;  // model, user
// Arrays and objects inside each other: 128 schemas (engine/grammar/json_schema.h), each in an array or an
// object of the one around it, and what is around them.
inline constexpr int kBodyDepth = 272;
inline constexpr size_t kTokens = size_t{1} << 20;
inline constexpr int kPriority = 1000;        // -1000 to 1000
inline constexpr int kCompletionTokens = 16;  // max_tokens of /v1/completions where it is not given: OpenAI's

}  // namespace serval::server::api_limit
