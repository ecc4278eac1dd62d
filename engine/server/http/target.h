// The target of a request (RFC 9112, 3.2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serval::server {

struct Target {
  std::string path;   // percent-decoded: "/v1/models/org/name" for "/v1/models/org%2Fname?limit=1"
  std::string query;  // as sent: "limit=1" for the same target; empty: none
};

// Reads a path, an http or https URL, whose host is ignored, or "*". Returns nullopt for anything else, for a
// '%' without two hexadecimal digits, and for a path with a zero byte.
std::optional<Target> read_target(std::string_view target);

}  // namespace serval::server
