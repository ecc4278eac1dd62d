#include "engine/server/server.h"

#include <future>
#include <thread>
#include <utility>

#include "engine/server/api/api_error.h"

namespace serval::server {
namespace {

constexpr std::chrono::milliseconds kFlushPatience{2000};
constexpr std::chrono::milliseconds kFlushPoll{5};

HttpResponse refusal(int status, const std::string& why) {
  ApiError error(status, "bad_request", why);
  if (status == 503) error.retry_after_s = 1;
  return error_response(error);
}

}  // namespace

Server::Server(ServerOptions options)
    : service_(loop_, std::move(options.service)),
      http_(loop_, options.http, service_.handler(), refusal, options.cors, options.tls),
      port_(http_.listen(options.host, options.port)) {
  loop_.start();
}

Server::~Server() {
  loop_.stop();
}

void Server::drain_on(int descriptor, std::chrono::duration<double> patience, std::function<void()> before) {
  loop_.post([this, descriptor, patience, before = std::move(before)] {
    loop_.when_readable(descriptor, [this, patience, before] {
      before();
      http_.close_after_answers();
      service_.drain(patience);
    });
  });
}

bool Server::has_unsent() {
  std::promise<bool> answer;
  loop_.post([&] { answer.set_value(http_.has_unsent()); });
  return answer.get_future().get();
}

Service::Outcome Server::wait() {
  const Service::Outcome outcome = service_.wait();
  const auto until = std::chrono::steady_clock::now() + kFlushPatience;
  while (has_unsent() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kFlushPoll);
  return outcome;
}

}  // namespace serval::server
