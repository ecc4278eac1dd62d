// Reading untrusted JSON: a size limit before anything is read, limits of depth, values and their text while
// it is parsed, and no key twice in one object (RFC 8259 leaves that to the reader; most keep the last one).
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

inline constexpr int kMaxJsonDepth = 64;  // arrays and objects inside each other
// Of a tree. They keep a hostile file's below 1.5 GiB.
inline constexpr std::size_t kMaxJsonValues = 1 << 22;
inline constexpr std::size_t kMaxJsonTextBytes = std::size_t{1} << 27;  // texts and keys
// From one value to the next, where the text comes in pieces.
inline constexpr std::size_t kMaxJsonValueBytes = std::size_t{1} << 24;

// `name` is what messages call the text, usually a file's path.
nlohmann::json parse_json_text(std::string_view text, const std::string& name);

// Takes an element of an array that is a member of an object, or returns false. `keys` lead from the root to
// the array, through objects alone.
using TakeJsonElement =
    std::function<bool(const std::vector<std::string>& keys, const nlohmann::json& element)>;

// The same, but what `take` takes is not kept and does not count: for long lists of small things. The text is
// not kept either, so that it may be longer than memory. Whatever `take` and `text` throw passes through.
nlohmann::json parse_json_elements(const TextPieces& text, const std::string& name,
                                   const TakeJsonElement& take);

nlohmann::json parse_json_file(const std::filesystem::path& path, std::size_t size_limit);

// Text as a message may show it: in quotes, escaped to ASCII on one line, and cut when it is long.
std::string in_quotes(std::string_view text);

}  // namespace serval
