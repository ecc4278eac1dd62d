#include "models/checkpoint/stored_formats.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/quantised/matrix_reader.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

struct Examined {
  DType dtype = DType::kBF16;
  std::string reason = {};
};

// The matrices that `model` has in e4m3.
Examined examine(const Checkpoint& checkpoint, const Quantisation& quantisation, const Model& model) {
  bool some_e4m3 = false;
  std::string other;
  for (const WeightSpec& spec : model.weights()) {
    if (spec.dtype != DType::kE4M3 || !spec.copy_of.empty()) continue;
    const auto found = find_quantised_matrix(checkpoint, quantisation, spec, spec.name);
    some_e4m3 = some_e4m3 || (found && found->matrix.type == CodeType::kE4M3);
    if (!other.empty() || (found && found->matrix.has_e4m3_rows())) continue;
    const std::string type = found ? scheme_text(*quantisation.scheme_of(module_of(spec.name)))
                                   : std::string(dtype_name(checkpoint.tensor(spec.name).dtype));
    other = fmt::format("tensor {} is {}, not e4m3 with a scale per matrix or row", shown(spec.name), type);
  }
  if (!some_e4m3) return {};
  return other.empty() ? Examined{.dtype = DType::kE4M3} : Examined{.reason = other};
}

}  // namespace

StoredFormats stored_formats(const std::filesystem::path& model_dir, const Model& model) {
  try {
    const std::optional<Quantisation> quantisation = read_quantisation(model_dir);
    const auto is_e4m3 = [](const Quantisation::Group& group) {
      return group.scheme.type == CodeType::kE4M3;
    };
    if (!quantisation || std::ranges::none_of(quantisation->groups, is_e4m3)) return {};
    const Checkpoint checkpoint = Checkpoint::open(model_dir);
    Examined layers = examine(checkpoint, *quantisation, *model.with_formats({.layers = DType::kE4M3}));
    Examined lm_head = examine(checkpoint, *quantisation, *model.with_formats({.lm_head = DType::kE4M3}));
    return {.formats = {.layers = layers.dtype, .lm_head = lm_head.dtype},
            .layers_reason = std::move(layers.reason),
            .lm_head_reason = std::move(lm_head.reason)};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace serval
