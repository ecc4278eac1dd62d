// JSON in the format that the commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace serval::cli {

// Indented, keys in insertion order, with a newline at the end. Bytes that are not UTF-8 become U+FFFD.
std::string pretty(const nlohmann::ordered_json& value);
// Like pretty(), on one line.
std::string compact(const nlohmann::ordered_json& value);

}  // namespace serval::cli
