#include "engine/server/http/head.h"

#include <algorithm>

#include "fmt/format.h"

#include "engine/server/http/request_id.h"

namespace serval::server {
namespace {

struct Reason {
  int status;
  const char* phrase;
};

constexpr Reason kReasons[] = {{200, "OK"},
                               {204, "No Content"},
                               {400, "Bad Request"},
                               {401, "Unauthorized"},
                               {404, "Not Found"},
                               {405, "Method Not Allowed"},
                               {408, "Request Timeout"},
                               {413, "Payload Too Large"},
                               {415, "Unsupported Media Type"},
                               {429, "Too Many Requests"},
                               {431, "Request Header Fields Too Large"},
                               {500, "Internal Server Error"},
                               {501, "Not Implemented"},
                               {503, "Service Unavailable"},
                               {504, "Gateway Timeout"}};

constexpr int kNoContent = 204;

const char* phrase_of(int status) {
  const auto reason = std::ranges::find(kReasons, status, &Reason::status);
  return reason == std::end(kReasons) ? "Unknown" : reason->phrase;
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  return text;
}

}  // namespace

std::string head_of(const HttpResponse& response, const Framing& framing) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nServer: serval\r\n", response.status, phrase_of(response.status));
  const bool has_body = response.status != kNoContent;
  if (has_body) head += fmt::format("Content-Type: {}\r\n", response.content_type);
  const auto add = [&](const auto& header) {
    head += fmt::format("{}: {}\r\n", header.first, one_line(header.second));
  };
  std::ranges::for_each(response.headers, add);
  std::ranges::for_each(framing.more, add);
  const bool has_id = std::ranges::any_of(
      response.headers, [](const auto& header) { return header.first == kRequestIdHeader; });
  if (!has_id && !framing.request_id.empty()) add(std::pair(kRequestIdHeader, framing.request_id));
  if (framing.content_length && has_body)
    head += fmt::format("Content-Length: {}\r\n", *framing.content_length);
  if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
  head += framing.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk_of(std::string_view bytes) {
  return bytes.empty() ? std::string() : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace serval::server
