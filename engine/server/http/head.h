// Status line, headers and chunks of an HTTP answer (RFC 9112).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

struct Framing {
  std::optional<size_t> content_length;  // none: the body is chunked, or (HTTP/1.0) ends with the connection
  bool chunked = false;
  bool keep_alive = true;
  std::string request_id = {};  // X-Request-Id; an X-Request-Id among the answer's own headers replaces it
  HttpHeaders more = {};        // additional headers
};

// Status line, headers and the empty line. 204 has no body, so its head has no Content-Type and no
// Content-Length. Line breaks in a header's value become spaces.
std::string head_of(const HttpResponse& response, const Framing& framing);

// A chunk of a chunked body; empty for no bytes, because an empty chunk would end the body.
std::string chunk_of(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace serval::server
