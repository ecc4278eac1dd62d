// What a request is refused with: a status of HTTP and OpenAI's error object.
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
  int retry_after_s = 0;   // 0: does not say
  std::string allow = {};  // of a 405: the methods that its path has
};

// What the engine refused with an Error of this kind: 400 for kUsage, else 500. Names the parameter with
// which the message begins, and no folder of the server.
ApiError engine_error(ErrorKind kind, const std::string& message);
// 500: a fault has stopped the engine.
ApiError engine_failed(const std::string& fault);

// 400: something in the body is not as it must be.
[[noreturn]] void refuse_parameter(const std::string& param, const std::string& problem);

// OpenAI's word for the kind of an error.
const char* error_type_of(int status);

// {"error": {"message", "type", "param", "code"}}, in one line.
std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace serval::server
