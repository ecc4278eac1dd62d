// Requests and answers of HTTP, as the service sees them: no sockets, no library.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace serval::server {

struct HttpRequest {
  std::string method;         // "GET"
  std::string target;         // path and query as they were sent
  std::string authorization;  // the header's value; empty: none
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

// "/v1/models" of "/v1/models?limit=1".
inline std::string path_of(const HttpRequest& request) {
  return request.target.substr(0, request.target.find('?'));
}

// "limit=1" of the same; empty: none.
inline std::string query_of(const HttpRequest& request) {
  const size_t at = request.target.find('?');
  return at == std::string::npos ? std::string() : request.target.substr(at + 1);
}

}  // namespace serval::server
