// Reading untrusted JSON: a size limit before anything is read; limits of depth, number of values and text
// while it is parsed; no key twice in one object (RFC 8259 leaves that to the reader; most keep the last
// one).
//
// Every failure is one line, serval::Error(kRuntime): "NAME: byte N: what is wrong".
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "vm/base/text_file.h"

namespace serval {

inline constexpr int kMaxJsonDepth = 64;  // nesting of arrays and objects
// Limits of one tree: they keep the tree of a hostile file below 1.5 GiB.
inline constexpr std::size_t kMaxJsonValues = 1 << 22;
inline constexpr std::size_t kMaxJsonTextBytes = std::size_t{1} << 27;  // texts and keys
// Limit from one value to the next, where the text comes in pieces.
inline constexpr std::size_t kMaxJsonValueBytes = std::size_t{1} << 24;

// `name` is what messages call the text, usually a file's path.
nlohmann::json parse_json_text(std::string_view text, const std::string& name,
                               int most_depth = kMaxJsonDepth);

// Takes an element of an array that is a member of an object, or returns false. `keys`: path from the root to
// the array, through objects only.
using TakeJsonElement =
    std::function<bool(const std::vector<std::string>& keys, const nlohmann::json& element)>;

// parse_json_text() for long lists of small elements: elements that `take` takes are neither kept nor
// counted. The text is not kept either, so it may be larger than memory. Exceptions of `take` and `text` pass
// through.
nlohmann::json parse_json_elements(const TextPieces& text, const std::string& name,
                                   const TakeJsonElement& take);

// Reads NaN, Infinity and -Infinity as numbers, too, which JSON lacks and Python writes.
nlohmann::json parse_json_file(const std::filesystem::path& path, std::size_t size_limit);

// Text for messages: in quotes, escaped to ASCII on one line, and cut if it is long.
std::string in_quotes(std::string_view text);

}  // namespace serval
