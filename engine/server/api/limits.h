// Limits of a request's parameters. instructions/sample/ranges.h has those of sampling parameters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace serval::server::api_limit {

inline constexpr size_t kStopStrings = 16;
inline constexpr size_t kStopBytes = 1024;
inline constexpr size_t kStopTokens = 16;
inline constexpr size_t kLogitBiases = 1024;
inline constexpr size_t kBadWords = 128;
inline constexpr size_t kBadWordBytes = 256;
inline constexpr size_t kSaltBytes = 256;
inline constexpr size_t kPrompts = 128;
inline constexpr size_t kEmbeddingInputs = 2048;  // OpenAI's
inline constexpr int kAnswers = 128;              // limit of `n`, and of the answers to all prompts together
inline constexpr size_t kMessages = 4096;
inline constexpr size_t kToolCalls = 256;  // of a message
inline constexpr size_t kContentParts = 1024;
inline constexpr size_t kNameBytes = 256;  // model, user
// Levels of arrays and objects: 128 nested schemas (engine/grammar/json_schema.h), each inside an array or
// object of the enclosing schema, and 16 levels around them.
inline constexpr int kBodyDepth = 272;
inline constexpr size_t kTokens = size_t{1} << 20;
inline constexpr int kPriority = 1000;        // -1000 to 1000
inline constexpr int kCompletionTokens = 16;  // default max_tokens of /v1/completions, as OpenAI's

}  // namespace serval::server::api_limit
