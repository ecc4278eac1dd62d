// Computes the logits after every prefix of a given text, with a backend or with the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/torch/oracle.h"

namespace serval {

// Reports completed positions and their total; called on the calling thread.
using TeacherProgress = std::function<void(size_t done, size_t total)>;

// Reads `tokens` as a prompt in passes of as many rows as the program has. If more rows of a pass want logits
// than one pass may have (logit_rows()), the pass runs several times, each for the logits of other rows.
// Returns [tokens, vocab]. Overwrites the backend's state and block table; needs as many free KV blocks as
// the tokens fill. Throws Error(kUsage) if they do not fit, and the backend's errors.
std::vector<float> teacher_force(Backend& backend, std::span<const int32_t> tokens,
                                 const TeacherProgress& progress = {});

struct DecodedCopies {
  std::vector<float> logits;  // [tokens, vocab]: for each position, from the copy that decoded it first
  size_t different = 0;       // number of positions of other copies with different bits
};

// Decodes `copies` sequences of `tokens` in parallel, in passes of one row for each. Copy i starts at
// position i, after reading the tokens before it in a separate pass, and wraps around after the last
// position. So the rows of a pass differ, and each copy decodes each position once. Overwrites the state and
// throws as teacher_force(), and throws Error(kUsage) if a pass has no row, or the state no slot, for each
// copy.
DecodedCopies decode_copies(Backend& backend, std::span<const int32_t> tokens, uint32_t copies,
                            const TeacherProgress& progress = {});

// teacher_force() with the reference, whose cache must have a cell for each token. `vocab` is the size of the
// model's vocabulary.
std::vector<float> teacher_force(Oracle& oracle, std::span<const int32_t> tokens, size_t vocab,
                                 const TeacherProgress& progress = {});

}  // namespace serval
