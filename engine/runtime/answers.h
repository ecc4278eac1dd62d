// Responses, put together from the events of their answers.
#pragma once

#include "engine/include/serval/engine.h"

namespace serval {

// The response is complete once its answer's last event is added.
void add_event(Response& response, const RequestEvent& event);

// Throws what the response failed with, if it did.
Response throw_if_failed(Response response);

}  // namespace serval
