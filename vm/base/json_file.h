// Reading untrusted JSON: a size limit before anything is read, a depth and a value limit
// while it is parsed, and no key twice in one object (RFC 8259 leaves that to the reader; most keep the last
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

namespace serval {

inline constexpr int kMaxJsonDepth = 64;                // arrays and objects inside each other
inline constexpr std::size_t kMaxJsonValues = 1 << 22;  // keeps a hostile file's tree below 1 GiB

// Text of a regular file of at most `size_limit` bytes. The size is checked before anything is allocated.
std::string read_text_file(const std::filesystem::path& path, std::size_t size_limit);

// `name` is what messages call the text, usually a file's path.
nlohmann::json parse_json_text(std::string_view text, const std::string& name);

// Takes an element of an array that is a member of the root object, or returns false.
using TakeJsonElement = std::function<bool(const std::string& member, const nlohmann::json& element)>;

// The same, but what `take` takes is not kept and does not count: for long lists of small things. Whatever
// `take` throws passes through.
nlohmann::json parse_json_elements(std::string_view text, const std::string& name,
                                   const TakeJsonElement& take);

nlohmann::json parse_json_file(const std::filesystem::path& path, std::size_t size_limit);

// Text as a message may show it: in quotes, escaped to ASCII on one line, and cut when it is long.
std::string in_quotes(std::string_view text);

}  // namespace serval
