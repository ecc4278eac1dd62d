// The paths of the API.
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
  kMessages,
  kEmbeddings,
  kCountTokens,
  kTokenize,
  kDetokenize,
  kTokenizerInfo
};

struct Route {
  const char* method;
  const char* path;
  Action action;
  bool needs_key;
  bool has_name = false;  // "/NAME" may follow the path
};

// Throws ApiError (404) for an unknown path.
const Route& find_route(const std::string& path);
// Throws ApiError (405) for another method than the route's. HEAD is allowed where GET is.
void check_method(const Route& route, const std::string& method);
// NAME of "PATH/NAME" for a route with `has_name`; empty: none.
std::string name_after(const Route& route, const std::string& path);

}  // namespace serval::server
