#include "engine/server/api/api_error.h"

#include <algorithm>

#include "nlohmann/json.hpp"

#include "engine/server/api/json_text.h"
#include "engine/server/api/parameters.h"
#include "engine/server/http/request_id.h"

namespace serval::server {

namespace {

// Error messages begin with a file or a field. Clients must not see the server's folders.
std::string without_folder(const std::string& message) {
  const size_t end = std::min(message.find(": "), message.size());
  const size_t slash = message.rfind('/', end);
  return slash == std::string::npos ? message : message.substr(slash + 1);
}

// The parameter with which a kUsage message begins, such as "logit_bias[0]: …"; empty: none.
std::string param_in(const std::string& message) {
  const std::string name = message.substr(0, message.find_first_of(":[, "));
  const bool known = std::ranges::find(parameters(), name, &Parameter::name) != parameters().end();
  return known ? name : "";
}

// platform.claude.com/docs/en/api/errors
const char* anthropic_type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      break;
  }
  constexpr int kServerErrors = 500;
  return status < kServerErrors ? "invalid_request_error" : "api_error";
}

std::string anthropic_error_json(const ApiError& error, const std::string& request_id) {
  nlohmann::ordered_json all = {
      {"type", "error"}, {"error", {{"type", anthropic_type_of(error.status)}, {"message", error.what()}}}};
  if (!request_id.empty()) all["request_id"] = request_id;
  return json_text(all);
}

}  // namespace

ApiError engine_error(ErrorKind kind, const std::string& message) {
  return kind == ErrorKind::kUsage ? ApiError(400, "invalid_value", message, param_in(message))
                                   : ApiError(500, "engine_error", without_folder(message));
}

ApiError engine_failed(const std::string& fault) {
  return {500, "engine_error", "the engine has failed: " + fault};
}

void refuse_parameter(const std::string& param, const std::string& problem) {
  throw ApiError(400, "invalid_value", param + ": " + problem, param);
}

const char* error_type_of(int status) {
  constexpr int kUnauthorized = 401, kTooManyRequests = 429, kServerErrors = 500;
  if (status == kUnauthorized) return "authentication_error";
  if (status == kTooManyRequests) return "rate_limit_error";
  return status < kServerErrors ? "invalid_request_error" : "server_error";
}

std::string error_json(const ApiError& error, ApiStyle style, const std::string& request_id) {
  if (style == ApiStyle::kAnthropic) return anthropic_error_json(error, request_id);
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  return json_text({{"error",
                     {{"message", error.what()},
                      {"type", error_type_of(error.status)},
                      {"param", or_null(error.param)},
                      {"code", or_null(error.code)}}}});
}

HttpResponse error_response(const ApiError& error, ApiStyle style, const std::string& request_id) {
  HttpResponse response{.status = error.status, .body = error_json(error, style, request_id)};
  if (error.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (!error.allow.empty()) response.headers.emplace_back("Allow", error.allow);
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (!request_id.empty()) response.headers.emplace_back(kRequestIdHeader, request_id);
  if (!request_id.empty() && style == ApiStyle::kAnthropic)
    response.headers.emplace_back(kAnthropicIdHeader, request_id);
  return response;
}

}  // namespace serval::server
