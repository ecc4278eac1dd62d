// Requests that one call submits and waits for.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/engine_impl.h"

namespace serval {

class BlockingRun {
 public:
  // From here on Engine::cancel() ends it.
  BlockingRun(Engine::Impl& engine, size_t requests);

  // Responses in the order of the requests, as many for each as it wants answers. Tokens go to `on_token`, if
  // it is set, numbered `first_number`, … by their response. Throws what that throws, when the requests have
  // ended, and errors of the backend.
  std::vector<Response> run(std::vector<PreparedRequest> requests, const TokenCallback& on_token,
                            uint64_t first_number);

 private:
  void take_events(const TokenCallback& on_token, uint64_t first_number);

  Engine::Impl& engine_;
  EventReader reader_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<size_t> first_response_;  // of each request
  std::vector<Response> responses_;
};

}  // namespace serval
