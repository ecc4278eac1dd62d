// Every connection takes a file descriptor.
#pragma once

#include <cstddef>

namespace serval::server {

// Raises the process's limit, as far as it may, so that `connections` fit beside what else is open. Returns
// how many do.
size_t raise_descriptor_limit(size_t connections);

}  // namespace serval::server
