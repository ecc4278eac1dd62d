// Logits after every prefix of a given text, from a backend and from the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/torch/oracle.h"

namespace serval {

// Positions that are done, and how many there are; called on the calling thread.
using TeacherProgress = std::function<void(size_t done, size_t total)>;

// Reads `tokens` as a prompt in passes of as many rows as the program has. A pass of which more want logits
// than may (logit_rows()) runs several times, each for the logits of other rows. Returns [tokens, vocab].
// Overwrites the backend's state and block table; needs as many free KV blocks as the tokens fill. Throws
// Error(kUsage) where they do not fit, and what the backend throws.
std::vector<float> teacher_force(Backend& backend, std::span<const int32_t> tokens,
                                 const TeacherProgress& progress = {});

struct DecodedCopies {
  std::vector<float> logits;  // [tokens, vocab]: at each position, of the copy that came to it first
  size_t different = 0;       // how many times another copy's have other bits
};

// Decodes `copies` sequences of `tokens` side by side, in passes of one row each. Copy i begins at position
// i, behind tokens that it reads in a pass of their own, and comes to these positions after the last one: so
// rows of a pass differ, and each copy decodes each position once. Overwrites the state as teacher_force().
// Throws as it does, and Error(kUsage) where a pass has no row or the state no slot for each copy.
DecodedCopies decode_copies(Backend& backend, std::span<const int32_t> tokens, uint32_t copies,
                            const TeacherProgress& progress = {});

// The logits of teacher_force() from the reference, whose cache must have a cell for each token. `vocab` is
// the model's.
std::vector<float> teacher_force(Oracle& oracle, std::span<const int32_t> tokens, size_t vocab,
                                 const TeacherProgress& progress = {});

}  // namespace serval
