// Errors of requests: an HTTP status and OpenAI's error object.
#pragma once

#include <stdexcept>
#include <string>

#include "engine/server/http/message.h"
#include "vm/base/error.h"

namespace serval::server {

struct ApiError : std::runtime_error {
  ApiError(int its_status, std::string its_code, const std::string& message, std::string its_param = {})
      : std::runtime_error(message),
        status(its_status),
        code(std::move(its_code)),
        param(std::move(its_param)) {}

  int status;
  std::string code;        // "invalid_value", "model_not_found", …
  std::string param;       // the parameter's name; empty: none
  int retry_after_s = 0;   // header Retry-After; 0: none
  std::string allow = {};  // header Allow of a 405: the methods of the path
};

// The answer to an Error of the engine: 400 for kUsage, else 500. `param` is the parameter with which the
// message begins. Removes the folder from a path in the message of a 500: clients must not see it.
ApiError engine_error(ErrorKind kind, const std::string& message);
// 500: the engine has stopped because of `fault`.
ApiError engine_failed(const std::string& fault);

// Throws a 400: a parameter's value is not allowed.
[[noreturn]] void refuse_parameter(const std::string& param, const std::string& problem);

// The "type" of OpenAI's error object, such as "invalid_request_error".
const char* error_type_of(int status);

enum class ApiStyle { kOpenAi, kAnthropic };

// In one line, {"error": {"message", "type", "param", "code"}} or, of Anthropic's API,
// {"type": "error", "error": {"type", "message"}}, with "request_id" if it is not empty.
std::string error_json(const ApiError& error, ApiStyle style = ApiStyle::kOpenAi,
                       const std::string& request_id = {});
// With the header X-Request-Id, and of Anthropic's API "request-id", if `request_id` is not empty.
HttpResponse error_response(const ApiError& error, ApiStyle style = ApiStyle::kOpenAi,
                            const std::string& request_id = {});

}  // namespace serval::server
