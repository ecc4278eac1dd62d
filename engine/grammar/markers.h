// Markers of an answer that are single tokens of the model. In a grammar such a token is one byte that UTF-8
// does not use, so that it differs from the same text spelled by other tokens.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "engine/answer/formats.h"

namespace serval::grammar {

inline constexpr size_t kNumMarkers = std::size(kMarkers);
// The byte of marker i is kFirstMarkerByte + i. UTF-8 has no byte beyond 0xF4.
inline constexpr uint8_t kFirstMarkerByte = 0xF8;
static_assert(kFirstMarkerByte + kNumMarkers <= 0x100);

// The token of each marker of kMarkers; nullopt: the model spells it with several tokens.
struct MarkerTokens {
  std::array<std::optional<int32_t>, kNumMarkers> ids = {};

  // The byte of a marker that is a token. `marker` must be one of kMarkers.
  std::optional<uint8_t> byte_of(std::string_view marker) const {
    for (size_t i = 0; i < kNumMarkers; ++i)
      if (kMarkers[i] == marker && ids[i]) return static_cast<uint8_t>(kFirstMarkerByte + i);
    return std::nullopt;
  }
  // Index of the marker that is this token.
  std::optional<size_t> marker_of(int32_t token) const {
    for (size_t i = 0; i < kNumMarkers; ++i)
      if (ids[i] == token) return i;
    return std::nullopt;
  }
  friend bool operator==(const MarkerTokens&, const MarkerTokens&) = default;
};

}  // namespace serval::grammar
