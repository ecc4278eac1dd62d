// The process's limit of open files: every connection needs a file descriptor.
#pragma once

#include <cstddef>

namespace serval::server {

// Raises the soft limit, at most to the hard limit, so that `connections` fit in addition to 128 other files.
// Returns how many connections fit.
size_t raise_descriptor_limit(size_t connections);

}  // namespace serval::server
