// The header X-Request-Id: the server keeps a client's own and makes one for other requests.
#pragma once

#include <string>
#include <string_view>

namespace serval::server {

inline constexpr const char* kRequestIdHeader = "X-Request-Id";
inline constexpr const char* kAnthropicIdHeader = "request-id";  // where clients of Anthropic's API look

// True if `text` is 1 to 128 printable ASCII characters without spaces.
bool is_request_id(std::string_view text);
// "PREFIX" and 32 random hexadecimal digits. Thread-safe.
std::string new_request_id(std::string_view prefix = "req-");

}  // namespace serval::server
