// Requests and answers of HTTP, as the service sees them: no sockets, no library.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace serval::server {

struct HttpRequest {
  std::string method;         // "GET"
  std::string target;         // as it was sent; read_target() reads it
  std::string authorization;  // the header's value; empty: none
  std::string body;
  std::string request_id = {};  // X-Request-Id; empty: none
  // Origin, whether Access-Control-Request-Method is there, and Access-Control-Request-Headers.
  std::string origin = {};
  bool asks_before = false;
  std::string wanted_headers = {};
  // It came by a connection beyond the limit, which only serves questions of operators.
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
