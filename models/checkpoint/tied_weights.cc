#include "models/checkpoint/tied_weights.h"

#include <algorithm>
#include <optional>

#include "spdlog/spdlog.h"

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/quantised/matrix_reader.h"
#include "models/checkpoint/stored_elements.h"
#include "vm/base/error.h"

namespace serval {
namespace {

std::optional<Checkpoint> open_if_possible(const std::filesystem::path& model_dir) {
  try {
    return Checkpoint::open(model_dir);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void untie_differing_weights(const std::filesystem::path& model_dir, Model& model) {
  if (!model.tie_word_embeddings) return;
  const auto checkpoint = open_if_possible(model_dir);
  if (!checkpoint) return;
  for (const WeightSpec& spec : model.weights()) {
    if (spec.alias.empty() || !checkpoint->contains(spec.name)) continue;
    const bool packed = has_packed_weight(*checkpoint, module_of(spec.alias));
    if (!packed && (!checkpoint->contains(spec.alias) ||
                    equal_as_bf16(checkpoint->tensor(spec.name), checkpoint->tensor(spec.alias))))
      continue;
    spdlog::warn("{}: {} differs from {}: both are used, although config.json has tie_word_embeddings true",
                 checkpoint->source(), spec.alias, spec.name);
    model.tie_word_embeddings = false;
    return;
  }
}

}  // namespace serval
