// Requests that one call submits and waits for.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/engine_impl.h"

namespace serval {

class BlockingRun {
 public:
  // Engine::cancel() ends the run from the time of construction.
  BlockingRun(Engine::Impl& engine, size_t requests);

  struct Callbacks {
    uint64_t first_number = 0;  // tokens are numbered first_number + index of the response
    TokenCallback on_token = {};
    ResponseCallback on_response = {};
  };
  // Responses are in the order of the requests, as many for each as it has answers. Throws errors of the
  // backend, and exceptions of callbacks once the requests have ended.
  std::vector<Response> run(std::vector<PreparedRequest> requests, const Callbacks& callbacks);

 private:
  void take_events(const Callbacks& callbacks);

  Engine::Impl& engine_;
  EventReader reader_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<size_t> first_response_;  // one for each request
  std::vector<Response> responses_;
};

}  // namespace serval
