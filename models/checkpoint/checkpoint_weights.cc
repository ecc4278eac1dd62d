// open_checkpoint_weights(): the weights of a Hugging Face directory, quantised ones among them.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/quantised/matrix_reader.h"
#include "models/checkpoint/stored_elements.h"
#include "models/checkpoint/weight_source.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

// A tied weight may be stored only under its alias. Checkpoints of models without an LM head, such as models
// for embeddings, have names without the prefix "model.".
std::string stored_name(const Checkpoint& checkpoint, const WeightSpec& spec) {
  constexpr std::string_view kPrefix = "model.";
  if (checkpoint.contains(spec.name)) return spec.name;
  if (!spec.alias.empty() && checkpoint.contains(spec.alias)) return spec.alias;
  if (!spec.name.starts_with(kPrefix)) return spec.name;
  std::string bare = spec.name.substr(kPrefix.size());
  return checkpoint.contains(bare) ? bare : spec.name;
}

const TensorView& checked_tensor(const Checkpoint& checkpoint, const WeightSpec& spec,
                                 const std::string& name) {
  std::vector<int64_t> expected = {spec.rows, spec.cols};
  if (spec.kind != WeightKind::kMatrix) expected.erase(expected.begin());
  const auto fail = [&](const std::string& path, const std::string& found) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: tensor {}: {}, expected shape {} by config.json", path,
                                                 shown(name), found, shape_text(expected)));
  };
  if (!checkpoint.contains(name)) fail(checkpoint.source(), "missing");
  const TensorView& tensor = checkpoint.tensor(name);
  if (tensor.shape != expected) fail(checkpoint.path_of(name), "found shape " + shape_text(tensor.shape));
  if (tensor.dtype != StoredType::kBF16 && tensor.dtype != StoredType::kF16 &&
      tensor.dtype != StoredType::kF32)
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: tensor {}: found dtype {}; supported: BF16, F16 and F32",
                            checkpoint.path_of(name), shown(name), dtype_name(tensor.dtype)));
  return tensor;
}

bool is_zero(const TensorView& tensor) {
  return std::ranges::all_of(tensor.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Tensors without a use that no warning is needed for: rotary tables, scales of activations and of keys and
// values, which stay 16 bits wide, and the zero biases that GPTQ's packages add to each quantised matrix.
bool is_known_extra(const Checkpoint& checkpoint, const std::string& name, bool quantised) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  if (!quantised) return false;
  for (const char* suffix : {".input_scale", ".input_zero_point", ".input_scale_ub", ".activation_scale",
                             ".k_scale", ".v_scale", ".q_scale"})
    if (name.ends_with(suffix)) return true;
  return name.ends_with(".bias") && is_zero(checkpoint.tensor(name));
}

class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const std::filesystem::path& model_dir, const Model& model, NotFinite not_finite)
      : WeightSource(model), checkpoint_(Checkpoint::open(model_dir)), not_finite_(not_finite) {
    const std::optional<Quantisation> quantisation = read_quantisation(model_dir);
    std::set<std::string, std::less<>> used;
    if (model.pools) used.insert("lm_head.weight");
    for (const WeightSpec& spec : specs()) {
      used.insert(spec.name);
      if (!spec.alias.empty()) used.insert(spec.alias);
      const std::string name = stored_name(checkpoint_, spec);
      used.insert(name);
      std::optional<FoundMatrix> found;
      if (quantisation) found = find_quantised_matrix(checkpoint_, *quantisation, spec, name);
      if (found) {
        used.insert(found->tensors.begin(), found->tensors.end());
        weights_.emplace_back(std::move(found->matrix));
      } else {
        weights_.emplace_back(&checked_tensor(checkpoint_, spec, name));
      }
    }
    warn_of_unused(used, quantisation.has_value());
    if (quantisation)
      for (const std::string& notice : quantisation->notices) spdlog::warn("{}", notice);
  }

  std::string name() const override { return checkpoint_.source(); }

  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    if (const QuantisedMatrix* matrix = quantised(tensor))
      return matrix->read_elements(first, static_cast<int64_t>(out.size()), out.data());
    read_stored_elements(*plain(tensor), first, out);
  }

  const uint16_t* in_place(size_t tensor) const override {
    const TensorView* view = plain(tensor);
    const bool usable = view != nullptr && view->dtype == StoredType::kBF16 &&
                        reinterpret_cast<uintptr_t>(view->bytes.data()) % alignof(uint16_t) == 0;
    return usable ? reinterpret_cast<const uint16_t*>(view->bytes.data()) : nullptr;
  }

  void fetch(size_t tensor, int64_t first, int64_t count) const override {
    if (const QuantisedMatrix* matrix = quantised(tensor)) {
      const int64_t first_row = first / matrix->cols, last_row = (first + count - 1) / matrix->cols;
      populate_pages(matrix->codes.bytes_of_rows(first_row, last_row - first_row + 1));
    } else {
      populate_pages(bytes(tensor, first, count));
    }
  }

  void require_finite(size_t tensor, int64_t first, std::span<const uint16_t> bf16) const override {
    if (not_finite_ == NotFinite::kLoaded) return;
    const size_t index = first_not_finite(bf16);
    if (index < bf16.size()) refuse(tensor, first + static_cast<int64_t>(index), bf16[index]);
  }

  bool keeps_codes(size_t tensor) const override {
    const QuantisedMatrix* matrix = quantised(tensor);
    return matrix != nullptr && matrix->keeps_codes_in(specs()[tensor].dtype);
  }

  void read_codes(size_t tensor, int64_t first_row, int64_t row_count, uint8_t* to) const override {
    const WeightSpec& spec = specs()[tensor];
    if (spec.dtype == DType::kE4M3) {
      quantised(tensor)->read_e4m3_rows(first_row, row_count, to);
    } else {
      quantised(tensor)->read_int4_rows(spec.dtype, first_row, row_count, to);
    }
    if (not_finite_ == NotFinite::kLoaded) return;
    const int64_t index = first_not_finite_code(spec.dtype, to, row_count, spec.cols);
    if (index >= 0) refuse(tensor, first_row * spec.cols + index, 0);
  }

  void report() const override {
    std::map<std::string_view, size_t> converted;
    std::map<std::string_view, size_t> kept;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (keeps_codes(i)) {
        ++kept[code_type_name(quantised(i)->type)];
      } else if (const QuantisedMatrix* matrix = quantised(i)) {
        ++converted[code_type_name(matrix->type)];
      } else if (plain(i)->dtype != StoredType::kBF16) {
        ++converted[dtype_name(plain(i)->dtype)];
      }
    }
    report_rounded(checkpoint_.source(), converted);
    report_kept(checkpoint_.source(), kept);
  }

 private:
  const QuantisedMatrix* quantised(size_t tensor) const {
    return std::get_if<QuantisedMatrix>(&weights_[tensor]);
  }
  const TensorView* plain(size_t tensor) const {
    const auto* view = std::get_if<const TensorView*>(&weights_[tensor]);
    return view == nullptr ? nullptr : *view;
  }

  void warn_of_unused(const std::set<std::string, std::less<>>& used, bool is_quantised) const {
    constexpr size_t kMaxListed = 3;
    std::vector<std::string> unused;
    for (const std::string& name : checkpoint_.names())
      if (!used.contains(name) && !is_known_extra(checkpoint_, name, is_quantised))
        unused.push_back(shown(name));
    if (unused.empty()) return;
    const size_t count = unused.size();
    unused.resize(std::min(count, kMaxListed));
    spdlog::warn("{}: {} that the model does not use: {}{}", checkpoint_.source(), counted(count, "tensor"),
                 fmt::join(unused, ", "), count > kMaxListed ? ", ..." : "");
  }

  std::span<const std::byte> bytes(size_t tensor, int64_t first, int64_t count) const {
    const TensorView& view = *plain(tensor);
    const auto element_bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
    return view.bytes.subspan(static_cast<size_t>(first * element_bytes),
                              static_cast<size_t>(count * element_bytes));
  }

  [[noreturn]] void refuse(size_t tensor, int64_t index, uint16_t bf16) const {
    const WeightSpec& spec = specs()[tensor];
    if (const QuantisedMatrix* matrix = quantised(tensor)) {
      float value = 0;
      const int64_t row = index / spec.cols, col = index % spec.cols;
      matrix->read(row, 1, col, 1, &value);
      refuse_not_finite(matrix->blamed_for(row, col), spec, index, value);
    }
    const TensorView& view = *plain(tensor);
    float stored = bf16_to_float(bf16);
    if (view.dtype == StoredType::kF32) std::memcpy(&stored, bytes(tensor, index, 1).data(), sizeof stored);
    refuse_not_finite(fmt::format("{}: tensor {}", checkpoint_.path_of(view.name), shown(view.name)), spec,
                      index, stored);
  }

  const Checkpoint checkpoint_;
  const NotFinite not_finite_;
  // In order of specs(); they point into checkpoint_.
  std::vector<std::variant<const TensorView*, QuantisedMatrix>> weights_;
};

}  // namespace

std::unique_ptr<const WeightSource> open_checkpoint_weights(const std::filesystem::path& model_dir,
                                                            const Model& model, NotFinite not_finite) {
  return std::make_unique<const CheckpointWeights>(model_dir, model, not_finite);
}

}  // namespace serval
