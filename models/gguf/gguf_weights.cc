#include "models/gguf/gguf_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"

#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/safetensors.h"
#include "models/gguf/tensor_names.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

// The converters reorder the rows of Q and K for this architecture.
constexpr std::string_view kReordered = "llama";
// Tensors that read_gguf_model() reads.
constexpr std::string_view kNotWeights[] = {"rope_freqs.weight"};

const GgufTensor& checked_tensor(const GgufSet& files, const WeightSpec& spec) {
  const std::string name = gguf_tensor_name(spec.name);
  std::vector<int64_t> expected = {spec.rows, spec.cols};
  if (spec.kind != WeightKind::kMatrix) expected.erase(expected.begin());
  const GgufTensor* tensor = files.find(name);
  const std::string found = tensor == nullptr ? "missing" : "found shape " + shape_text(tensor->shape);
  if (tensor == nullptr || tensor->shape != expected) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: tensor {}: {}, expected shape {} by the metadata",
                                                 tensor == nullptr ? files.path() : files.path_of(*tensor),
                                                 in_quotes(name), found, shape_text(expected)));
  }
  return *tensor;
}

bool has_minimum(const GgufTensor& tensor) {
  return tensor.type->name == "Q4_1";
}

// True for types whose blocks are groups of 4-bit integers with a scale in fp16, and a minimum or the zero
// point 8 (models/gguf/dequantise.h).
bool has_int4_blocks(const GgufTensor& tensor) {
  return tensor.type->name == "Q4_0" || has_minimum(tensor);
}

// Copies the blocks of a row to codes and words.
void copy_int4_row(const std::byte* blocks, bool has_minimum, uint64_t cols, uint8_t* row) {
  constexpr uint32_t kGroup = group_of(DType::kInt4G32), kHalf = kGroup / 2, kZeroPoint = 8;
  for (uint64_t n = 0; n < cols / kGroup; ++n) {
    uint16_t scale = 0, minimum = 0;
    std::memcpy(&scale, blocks, sizeof scale);
    blocks += sizeof scale;
    if (has_minimum) {
      std::memcpy(&minimum, blocks, sizeof minimum);
      blocks += sizeof minimum;
    }
    int4_rows::set_word(row, cols, n,
                        has_minimum ? int4::word_with_minimum(scale, minimum)
                                    : int4::word_with_zero_point(scale, kZeroPoint));
    // Byte i of a block has elements i and 16 + i.
    for (uint32_t i = 0; i < kHalf; i += 2) {
      const auto first = std::to_integer<uint32_t>(blocks[i]),
                 second = std::to_integer<uint32_t>(blocks[i + 1]);
      int4_rows::set_pair(row, n * kGroup + i, first & 0xF, second & 0xF);
      int4_rows::set_pair(row, n * kGroup + kHalf + i, first >> 4, second >> 4);
    }
    blocks += kHalf;
  }
  int4_rows::clear_padding(row, cols);
  int4_rows::set_scale(row, cols, kGroup, 1);
}

// The type that keeps all of the matrices that `model` has in 4 bits, or the first that none does.
std::pair<DType, std::string> examine(const GgufSet& files, const Model& model) {
  std::string other;
  bool some = false;
  for (const WeightSpec& spec : model.weights()) {
    if (!is_int4(spec.dtype) || !spec.copy_of.empty()) continue;
    const GgufTensor* tensor = files.find(gguf_tensor_name(spec.name));
    if (tensor == nullptr) return {DType::kBF16, ""};  // loading the weights reports it
    if (has_int4_blocks(*tensor)) {
      some = true;
    } else if (other.empty()) {
      other = fmt::format("tensor {} is {}, not Q4_0 or Q4_1", in_quotes(tensor->name), tensor->type->name);
    }
  }
  if (!some) return {DType::kBF16, ""};
  return {other.empty() ? DType::kInt4G32 : DType::kBF16, other};
}

// `pools`: the run needs no LM head.
void refuse_unused(const GgufSet& files, std::span<const WeightSpec> specs, bool pools) {
  std::set<std::string, std::less<>> used(std::begin(kNotWeights), std::end(kNotWeights));
  if (pools) used.insert("output.weight");
  for (const WeightSpec& spec : specs) used.insert(gguf_tensor_name(spec.name));
  for (const GgufTensor* tensor : files.tensors()) {
    if (used.contains(tensor->name)) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: tensor {}: models of the architecture {} are supported without it",
                            files.path_of(*tensor), in_quotes(tensor->name),
                            files.fields().text("general.architecture")));
  }
}

class GgufWeights final : public WeightSource {
 public:
  GgufWeights(std::shared_ptr<const GgufSet> files, const Model& model, NotFinite not_finite)
      : WeightSource(model), files_(std::move(files)), head_dim_(model.head_dim), not_finite_(not_finite) {
    for (const WeightSpec& spec : specs()) tensors_.push_back(&checked_tensor(*files_, spec));
    refuse_unused(*files_, specs(), model.pools);
    reordered_ = files_->fields().text("general.architecture") == kReordered;
  }

  std::string name() const override { return files_->path(); }

  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    const GgufTensor& stored = *tensors_[tensor];
    if (!is_reordered(tensor))
      return read_ggml_elements(*stored.type, stored.bytes, static_cast<size_t>(first), out);
    const int64_t cols = specs()[tensor].cols;
    const size_t row_bytes = stored.bytes.size() / static_cast<size_t>(specs()[tensor].rows);
    while (!out.empty()) {
      const int64_t row = first / cols, col = first % cols;
      const auto count = std::min(out.size(), static_cast<size_t>(cols - col));
      const auto blocks = stored.bytes.subspan(static_cast<size_t>(stored_row(row)) * row_bytes, row_bytes);
      read_ggml_elements(*stored.type, blocks, static_cast<size_t>(col), out.first(count));
      out = out.subspan(count);
      first += static_cast<int64_t>(count);
    }
  }

  const uint16_t* in_place(size_t tensor) const override {
    const GgufTensor& stored = *tensors_[tensor];
    const bool usable = stored.type->name == "BF16" && !is_reordered(tensor) &&
                        reinterpret_cast<uintptr_t>(stored.bytes.data()) % alignof(uint16_t) == 0;
    return usable ? reinterpret_cast<const uint16_t*>(stored.bytes.data()) : nullptr;
  }

  void fetch(size_t tensor, int64_t first, int64_t count) const override {
    if (in_place(tensor) == nullptr) return;
    populate_pages(tensors_[tensor]->bytes.subspan(static_cast<size_t>(first) * sizeof(uint16_t),
                                                   static_cast<size_t>(count) * sizeof(uint16_t)));
  }

  void require_finite(size_t tensor, int64_t first, std::span<const uint16_t> bf16) const override {
    if (not_finite_ == NotFinite::kLoaded) return;
    const size_t index = first_not_finite(bf16);
    if (index == bf16.size()) return;
    refuse(tensor, first + static_cast<int64_t>(index), bf16_to_float(bf16[index]));
  }

  bool keeps_codes(size_t tensor) const override {
    return specs()[tensor].dtype == DType::kInt4G32 && has_int4_blocks(*tensors_[tensor]);
  }

  void read_codes(size_t tensor, int64_t first_row, int64_t row_count, uint8_t* to) const override {
    const WeightSpec& spec = specs()[tensor];
    const GgufTensor& stored = *tensors_[tensor];
    const size_t row_bytes = stored.bytes.size() / static_cast<size_t>(spec.rows);
    for (int64_t i = 0; i < row_count; ++i) {
      const int64_t row = is_reordered(tensor) ? stored_row(first_row + i) : first_row + i;
      copy_int4_row(stored.bytes.data() + static_cast<size_t>(row) * row_bytes, has_minimum(stored),
                    static_cast<uint64_t>(spec.cols), to + i * spec.row_bytes());
    }
    if (not_finite_ == NotFinite::kLoaded) return;
    const int64_t index = first_not_finite_code(spec.dtype, to, row_count, spec.cols);
    if (index < 0) return;
    const auto col = static_cast<uint64_t>(index % spec.cols);
    refuse(tensor, first_row * spec.cols + index,
           value_in_row(spec.dtype, to + index / spec.cols * spec.row_bytes(),
                        static_cast<uint64_t>(spec.cols), col));
  }

  void report() const override {
    std::map<std::string_view, size_t> converted, kept;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const std::string_view type = tensors_[i]->type->name;
      if (keeps_codes(i)) {
        ++kept[type];
      } else if (type != "BF16") {
        ++converted[type];
      }
    }
    report_rounded(files_->path(), converted);
    report_kept(files_->path(), kept);
  }

 private:
  [[noreturn]] void refuse(size_t tensor, int64_t index, float value) const {
    refuse_not_finite(
        fmt::format("{}: tensor {}", files_->path_of(*tensors_[tensor]), in_quotes(tensors_[tensor]->name)),
        specs()[tensor], index, value);
  }
  bool is_reordered(size_t tensor) const {
    return reordered_ && specs()[tensor].row_order == RowOrder::kRotaryPairs;
  }
  // RoPE rotates elements i and head_dim / 2 + i of a head together. The file stores them in rows 2 i and
  // 2 i + 1.
  int64_t stored_row(int64_t row) const {
    const int64_t half = head_dim_ / 2, within = row % head_dim_;
    return row - within + 2 * (within % half) + within / half;
  }

  const std::shared_ptr<const GgufSet> files_;
  const int64_t head_dim_;
  const NotFinite not_finite_;
  bool reordered_ = false;
  std::vector<const GgufTensor*> tensors_;  // in order of specs()
};

}  // namespace

StoredFormats gguf_stored_formats(const GgufSet& files, const Model& model) {
  auto [layers, layers_reason] = examine(files, *model.with_formats({.layers = DType::kInt4G32}));
  auto [lm_head, lm_head_reason] = examine(files, *model.with_formats({.lm_head = DType::kInt4G32}));
  return {.formats = {.layers = layers, .lm_head = lm_head},
          .layers_reason = std::move(layers_reason),
          .lm_head_reason = std::move(lm_head_reason)};
}

std::unique_ptr<const WeightSource> open_gguf_weights(std::shared_ptr<const GgufSet> files,
                                                      const Model& model, NotFinite not_finite) {
  return std::make_unique<const GgufWeights>(std::move(files), model, not_finite);
}

}  // namespace serval
