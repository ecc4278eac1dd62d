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

// The same from the reference, whose cache must have a cell for each token. `vocab` is the model's.
std::vector<float> teacher_force(Oracle& oracle, std::span<const int32_t> tokens, size_t vocab,
                                 const TeacherProgress& progress = {});

}  // namespace serval
