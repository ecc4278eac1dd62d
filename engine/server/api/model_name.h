// The parameter `model`, allowed in every body.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"

namespace serval::server {

// Throws ApiError (404) if `model` is present and is not `served`.
void check_model_name(const BodyFields& fields, const std::string& served);

}  // namespace serval::server
