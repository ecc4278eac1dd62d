// HTTP requests and answers without sockets and without a library.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace serval::server {

struct HttpRequest {
  std::string method;         // "GET"
  std::string target;         // as sent; see read_target()
  std::string authorization;  // the header's value; empty: none
  std::string body;
  std::string api_key = {};            // X-Api-Key; empty: none
  std::string anthropic_version = {};  // Anthropic-Version; empty: none
  std::string request_id = {};         // X-Request-Id; empty: none
  std::string origin = {};             // Origin
  bool has_requested_method = false;   // has Access-Control-Request-Method
  std::string requested_headers = {};  // Access-Control-Request-Headers
  // It came over a spare connection, which serves only /health, /ready, /metrics and /version.
  bool beyond_limit = false;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  std::string body = {};
};

}  // namespace serval::server
