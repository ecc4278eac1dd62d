// Base64 with the digits + and / and with padding (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

namespace serval {

std::string base64(std::string_view bytes);

}  // namespace serval
