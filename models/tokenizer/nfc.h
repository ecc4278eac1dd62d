// Unicode's Normalization Form C (Unicode Standard Annex #15): composed characters, marks in canonical order.
#pragma once

#include <string>
#include <string_view>

namespace serval {

// `text`, which is valid UTF-8, or its normalised copy in `*storage`. In O(n log n). Thread-safe.
std::string_view to_nfc(std::string_view text, std::string* storage);

}  // namespace serval
