// gzip (RFC 1952) in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace serval {

std::string gzip(std::string_view text);
bool is_gzip(std::string_view bytes);
// Throws Error(kRuntime), naming `name`, if the data is damaged, ends early, goes on behind its end, or gives
// more than `limit` bytes.
std::string gunzip(std::string_view bytes, uint64_t limit, const std::string& name);

}  // namespace serval
