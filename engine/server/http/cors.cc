#include "engine/server/http/cors.h"

#include <algorithm>

namespace serval::server {
namespace {

constexpr int kNoContent = 204;

// Header names separated by commas, as a browser sends them.
bool is_list_of_names(std::string_view text) {
  constexpr size_t kMostBytes = 2048;
  const auto belongs = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  };
  return !text.empty() && text.size() <= kMostBytes && std::ranges::all_of(text, belongs);
}

}  // namespace

bool is_cors_origin(std::string_view text) {
  if (text == "*") return true;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view host = text.substr(scheme.size());
    constexpr char kFirst = '!', kLast = '~';
    return !host.empty() && std::ranges::all_of(host, [](char c) {
      return c >= kFirst && c <= kLast && c != '/' && c != '?' && c != '#' && c != '@' && c != ',';
    });
  }
  return false;
}

HttpHeaders Cors::headers_for(std::string_view origin) const {
  if (origin_.empty()) return {};
  HttpHeaders headers;
  if (origin_ != "*") headers.emplace_back("Vary", "Origin");
  if (origin.empty() || !allows(origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin_);
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  return headers;
}

bool Cors::is_preflight(const HttpRequest& request) const {
  return !origin_.empty() && request.method == "OPTIONS" && request.has_requested_method &&
         allows(request.origin);
}

HttpResponse Cors::answer_preflight(const HttpRequest& request) {
  const bool named = is_list_of_names(request.requested_headers);
  return {.status = kNoContent,
          .headers = {
              {"Access-Control-Allow-Methods", "GET, HEAD, POST"},
              {"Access-Control-Allow-Headers",
               named ? request.requested_headers : "Authorization, Content-Type, X-Api-Key, X-Request-Id"},
              {"Access-Control-Max-Age", "600"}}};
}

}  // namespace serval::server
