#include "engine/runtime/answers.h"

#include <utility>

namespace serval {

void add_event(Response& response, const RequestEvent& event) {
  if (!event.response.prompt_logprobs.empty()) response.prompt_logprobs = event.response.prompt_logprobs;
  if (event.kind == RequestEvent::Kind::kToken) {
    response.text += event.token.text;
    response.tokens.push_back(event.token.token);
    response.log_probabilities.push_back(event.token.log_probability);
    if (!event.token.top_logprobs.empty()) response.top_logprobs.push_back(event.token.top_logprobs);
    return;
  }
  Response complete = event.response;
  complete.text = std::move(response.text);
  complete.tokens = std::move(response.tokens);
  complete.log_probabilities = std::move(response.log_probabilities);
  complete.top_logprobs = std::move(response.top_logprobs);
  complete.prompt_logprobs = std::move(response.prompt_logprobs);
  response = std::move(complete);
}

Response throw_if_failed(Response response) {
  if (response.finish == Finish::kError) throw Error(response.error_kind, response.error);
  return response;
}

}  // namespace serval
