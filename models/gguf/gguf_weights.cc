#include "models/gguf/gguf_weights.h"

#include <algorithm>
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
    refuse_not_finite(
        fmt::format("{}: tensor {}", files_->path_of(*tensors_[tensor]), in_quotes(tensors_[tensor]->name)),
        specs()[tensor], first + static_cast<int64_t>(index), bf16_to_float(bf16[index]));
  }

  void report() const override {
    std::map<std::string_view, size_t> converted;
    for (const GgufTensor* tensor : tensors_)
      if (tensor->type->name != "BF16") ++converted[tensor->type->name];
    report_rounded(files_->path(), converted);
  }

 private:
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

std::unique_ptr<const WeightSource> open_gguf_weights(std::shared_ptr<const GgufSet> files,
                                                      const Model& model, NotFinite not_finite) {
  return std::make_unique<const GgufWeights>(std::move(files), model, not_finite);
}

}  // namespace serval
