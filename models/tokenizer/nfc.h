// Unicode Normalization Form C (Unicode Standard Annex #15).
#pragma once

#include <string>
#include <string_view>

namespace serval {

// Returns `text`, which must be valid UTF-8, if it is in NFC already, else a copy in `*storage`. O(n log n).
// Thread-safe.
std::string_view to_nfc(std::string_view text, std::string* storage);

}  // namespace serval
