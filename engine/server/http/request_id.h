// The header X-Request-Id: a client's own is kept, others get one.
#pragma once

#include <string>
#include <string_view>

namespace serval::server {

inline constexpr const char* kRequestIdHeader = "X-Request-Id";

// 1 to 128 printable characters of ASCII without spaces.
bool is_request_id(std::string_view text);
// "PREFIX" and 32 random hexadecimal digits. Thread-safe.
std::string new_request_id(std::string_view prefix = "req-");

}  // namespace serval::server
