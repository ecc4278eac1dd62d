// The target of a request (RFC 9112, 3.2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serval::server {

struct Target {
  std::string path;   // percent-decoded: "/v1/models/org/name" of "/v1/models/org%2Fname?limit=1"
  std::string query;  // as it was sent, "limit=1" of the same; empty: none
};

// Reads a path, a whole URL of http or https, of which the host counts for nothing, and "*". None for
// anything else, for a '%' without two hexadecimal digits, and for a path with a zero byte.
std::optional<Target> read_target(std::string_view target);

}  // namespace serval::server
