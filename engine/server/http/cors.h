// Requests from pages of another origin (fetch.spec.whatwg.org, "CORS protocol"). A browser sends a preflight
// request with OPTIONS first, and lets the page read an answer only if the answer's headers allow it.
#pragma once

#include <string>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

// True if `text` is "*", http://HOST[:PORT] or https://HOST[:PORT].
bool is_cors_origin(std::string_view text);

// Immutable.
class Cors {
 public:
  // Pages of `origin` may send requests; "*": all pages; empty: no page of another origin.
  explicit Cors(std::string origin) : origin_(std::move(origin)) {}

  // The CORS headers of an answer to a request whose header Origin is `origin`.
  HttpHeaders headers_for(std::string_view origin) const;
  bool is_preflight(const HttpRequest& request) const;
  static HttpResponse answer_preflight(const HttpRequest& request);

 private:
  bool allows(std::string_view origin) const { return origin_ == "*" || origin_ == origin; }

  const std::string origin_;
};

}  // namespace serval::server
