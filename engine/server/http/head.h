// The head of an answer as it goes over the wire.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/http/message.h"

namespace serval::server {

struct Framing {
  std::optional<size_t> content_length;  // none: chunked, or, where that is not understood, until the end
  bool chunked = false;
  bool keep_alive = true;
  std::string request_id = {};  // X-Request-Id, unless the answer has its own
  HttpHeaders more = {};        // headers
};

// Status line, headers and the empty line. 204 has no body and says nothing about one. Line ends in a
// header's value become spaces.
std::string head_of(const HttpResponse& response, const Framing& framing);

// A chunk of a chunked body; nothing for no bytes, which would end the body.
std::string chunk_of(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace serval::server
