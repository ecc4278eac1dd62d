// Requests of pages that another server has sent ("cross-origin": fetch.spec.whatwg.org, "CORS protocol"). A
// browser asks before, with OPTIONS, and lets the page read an answer only if its headers allow that.
#pragma once

#include <string>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

// "*" or SCHEME://HOST[:PORT] of http or https.
bool is_cors_origin(std::string_view text);

// Immutable.
class Cors {
 public:
  // Of the pages that may ask; "*": all; empty: none.
  explicit Cors(std::string origin) : origin_(std::move(origin)) {}

  // The headers of an answer to a request whose header Origin is `origin`.
  HttpHeaders headers_for(std::string_view origin) const;
  // Whether it is the question that a browser asks before.
  bool is_preflight(const HttpRequest& request) const;
  // Its answer.
  static HttpResponse answer_preflight(const HttpRequest& request);

 private:
  bool allows(std::string_view origin) const { return origin_ == "*" || origin_ == origin; }

  const std::string origin_;
};

}  // namespace serval::server
