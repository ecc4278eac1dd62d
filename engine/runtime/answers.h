// Builds responses from the events of their answers.
#pragma once

#include "engine/include/serval/engine.h"

namespace serval {

// The response is complete once its answer's last event is added.
void add_event(Response& response, const RequestEvent& event);

// Throws the response's error if it has one.
Response throw_if_failed(Response response);

}  // namespace serval
