// A request as one log line: NAME=VALUE pairs separated by spaces. Contains no text of the request.
#pragma once

#include <string>

#include "engine/server/metrics/request_record.h"

namespace serval::server {

std::string log_line(const RequestRecord& record);

}  // namespace serval::server
