// Which paths are served.
#pragma once

#include <string>

#include "engine/server/http/message.h"

namespace serval::server {

enum class Action {
  kPage,
  kHealth,
  kReady,
  kVersion,
  kMetrics,
  kTrace,
  kModels,
  kCompletions,
  kChat,
  kResponses,
  kTokenize,
  kDetokenize
};

struct Route {
  const char* method;
  const char* path;
  Action action;
  bool needs_key;
  bool has_name = false;  // "/NAME" may follow
};

// Throws ApiError: 404 for another path.
const Route& find_route(const std::string& path);
// Throws ApiError: 405 for another method than the route's. HEAD goes where GET does.
void check_method(const Route& route, const std::string& method);
// What follows a route's path that has_name; empty: nothing.
std::string name_in(const Route& route, const std::string& path);

}  // namespace serval::server
