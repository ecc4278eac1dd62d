// The parameter `model`, which every body may have.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"

namespace serval::server {

// Throws ApiError (404) where it names another model than the one that is served.
void check_model_name(const BodyFields& fields, const std::string& served);

}  // namespace serval::server
