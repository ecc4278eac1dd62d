// JSON as answers have it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace serval::server {

// In one line. What is not UTF-8 becomes U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace serval::server
