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

// The type that keeps a matrix as it is stored; kBF16 if none does.
DType type_that_keeps(const QuantisedMatrix& matrix) {
  return matrix.has_e4m3_rows() ? DType::kE4M3 : matrix.int4_type();
}

// The type of two matrices that are stored in types `a` and `b`: groups of 4-bit integers may be divided.
DType common_type(DType a, DType b) {
  if (is_int4(a) && is_int4(b)) return group_of(a) < group_of(b) ? a : b;
  return a == b ? a : DType::kBF16;
}

const char* wanted_text(CodeType type) {
  return type == CodeType::kE4M3 ? "e4m3 with a scale per matrix or row"
                                 : "4-bit integers in groups of 32, 64, 128 or rows with scales of 16 bits";
}

std::string stored_text(const std::optional<FoundMatrix>& found, const Quantisation& quantisation,
                        const Checkpoint& checkpoint, const WeightSpec& spec) {
  if (!found) return std::string(dtype_name(checkpoint.tensor(spec.name).dtype));
  const QuantisedMatrix& matrix = found->matrix;
  std::string text = scheme_text(*quantisation.scheme_of(module_of(spec.name)));
  if (!matrix.block_of_col.empty()) text += " whose columns are not in sequence (g_idx)";
  if (matrix.type == CodeType::kUint4 && matrix.scales.type == StoredType::kF32)
    text += matrix.wide_scales_fit ? "" : " with scales of type F32 that fp16 cannot hold";
  return text;
}

// The matrices that `model` has in e4m3.
Examined examine(const Checkpoint& checkpoint, const Quantisation& quantisation, const Model& model) {
  std::optional<CodeType> codes;  // of the first matrix in codes that can be kept in some form
  std::optional<DType> common;    // of all matrices so far
  std::string other;
  for (const WeightSpec& spec : model.weights()) {
    if (spec.dtype != DType::kE4M3 || !spec.copy_of.empty()) continue;
    const auto found = find_quantised_matrix(checkpoint, quantisation, spec, spec.name);
    if (!codes && found && (found->matrix.type == CodeType::kE4M3 || found->matrix.type == CodeType::kUint4))
      codes = found->matrix.type;
    const DType kept = found ? type_that_keeps(found->matrix) : DType::kBF16;
    common = common ? common_type(*common, kept) : kept;
    if (other.empty() && (kept == DType::kBF16 || *common == DType::kBF16))
      other = fmt::format("tensor {} is {}", shown(spec.name),
                          stored_text(found, quantisation, checkpoint, spec));
  }
  if (!codes) return {};
  if (other.empty()) return {.dtype = *common};
  return {.reason = fmt::format("{}, not {}", other, wanted_text(*codes))};
}

}  // namespace

StoredFormats stored_formats(const std::filesystem::path& model_dir, const Model& model) {
  try {
    const std::optional<Quantisation> quantisation = read_quantisation(model_dir);
    const auto may_be_kept = [](const Quantisation::Group& group) {
      return group.scheme.type == CodeType::kE4M3 || group.scheme.type == CodeType::kUint4;
    };
    if (!quantisation || std::ranges::none_of(quantisation->groups, may_be_kept)) return {};
    const Checkpoint checkpoint = Checkpoint::open(model_dir);
    Examined layers = examine(checkpoint, *quantisation, *model.with_formats({.layers = DType::kE4M3}));
    Examined lm_head = examine(checkpoint, *quantisation, *model.with_formats({.lm_head = DType::kE4M3}));
    return {.formats = {.layers = layers.dtype,
                        .lm_head = lm_head.dtype,
                        .e4m3_inputs = quantisation->e4m3_inputs && layers.dtype == DType::kE4M3},
            .layers_reason = std::move(layers.reason),
            .lm_head_reason = std::move(lm_head.reason)};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace serval
