#include "engine/runtime/answers.h"

#include <utility>

namespace serval {

void add_event(Response& response, const RequestEvent& event) {
  if (event.kind == RequestEvent::Kind::kToken) {
    response.text += event.token.text;
    response.tokens.push_back(event.token.token);
    response.log_probabilities.push_back(event.token.log_probability);
    return;
  }
  Response complete = event.response;
  complete.text = std::move(response.text);
  complete.tokens = std::move(response.tokens);
  complete.log_probabilities = std::move(response.log_probabilities);
  response = std::move(complete);
}

Response throw_if_failed(Response response) {
  if (response.finish == Finish::kError) throw Error(response.error_kind, response.error);
  return response;
}

}  // namespace serval
