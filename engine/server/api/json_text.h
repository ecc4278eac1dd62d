// JSON text of answers.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace serval::server {

// `value` in one line. Bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace serval::server
