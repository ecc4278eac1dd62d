// Texts that arrive in pieces.
#pragma once

#include <cstddef>
#include <string_view>

#include "vm/base/text_file.h"

namespace serval::testing {

// Returns `text` in pieces of `bytes` bytes. `text` must outlive the returned function.
inline TextPieces pieces_of(std::string_view text, std::size_t bytes) {
  return [=]() mutable {
    const std::string_view piece = text.substr(0, bytes);
    text.remove_prefix(piece.size());
    return piece;
  };
}

// Returns `first`, then `next` forever. `given` counts the pieces.
inline TextPieces without_end(std::string_view first, std::string_view next, std::size_t& given) {
  given = 0;
  return [=, &given] { return given++ == 0 ? first : next; };
}

}  // namespace serval::testing
