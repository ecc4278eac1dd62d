#include "engine/server/service/routes.h"

#include <algorithm>
#include <string_view>

#include "fmt/format.h"

#include "engine/server/api/api_error.h"
#include "vm/base/json_fields.h"

namespace serval::server {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/", Action::kPage, false},
    {"GET", "/health", Action::kHealth, false},
    {"GET", "/ready", Action::kReady, false},
    {"GET", "/version", Action::kVersion, false},
    {"GET", "/metrics", Action::kMetrics, false},
    {"GET", "/debug/trace", Action::kTrace, true},
    {"GET", "/v1/models", Action::kModels, true, true},
    {"POST", "/v1/completions", Action::kCompletions, true},
    {"POST", "/v1/chat/completions", Action::kChat, true},
    {"POST", "/v1/responses", Action::kResponses, true},
    {"POST", "/v1/messages", Action::kMessages, true},
    {"POST", "/v1/embeddings", Action::kEmbeddings, true},
    {"POST", "/v1/messages/count_tokens", Action::kCountTokens, true},
    {"POST", "/tokenize", Action::kTokenize, true},
    {"POST", "/detokenize", Action::kDetokenize, true},
    {"GET", "/tokenizer_info", Action::kTokenizerInfo, true},
};

bool leads_to(const Route& route, const std::string& path) {
  return path == route.path || !name_after(route, path).empty();
}

}  // namespace

const Route& find_route(const std::string& path) {
  const auto* route = std::ranges::find_if(kRoutes, [&](const Route& of) { return leads_to(of, path); });
  if (route == std::end(kRoutes)) throw ApiError(404, "not_found", shown(path) + " is not served");
  return *route;
}

void check_method(const Route& route, const std::string& method) {
  const bool reads = route.method == std::string_view("GET");
  if (method == route.method || (reads && method == "HEAD")) return;
  ApiError error(405, "method_not_allowed", fmt::format("{}: expected {}", route.path, route.method));
  error.allow = reads ? "GET, HEAD" : route.method;
  throw error;
}

std::string name_after(const Route& route, const std::string& path) {
  const std::string before = route.path + std::string("/");
  return route.has_name && path.starts_with(before) ? path.substr(before.size()) : std::string();
}

}  // namespace serval::server
