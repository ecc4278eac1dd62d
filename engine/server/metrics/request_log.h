// A request as one line of a log: NAME=VALUE, apart by spaces, without anything of its text.
#pragma once

#include <string>

#include "engine/server/metrics/request_record.h"

namespace serval::server {

std::string log_line(const RequestRecord& record);

}  // namespace serval::server
