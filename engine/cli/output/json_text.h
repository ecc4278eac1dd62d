// JSON as the commands print it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace serval::cli {

// Indented, keys in the order of insertion, a newline at the end; text that is not UTF-8 gets U+FFFD.
std::string pretty(const nlohmann::ordered_json& value);
// The same on one line.
std::string compact(const nlohmann::ordered_json& value);

}  // namespace serval::cli
