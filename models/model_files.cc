#include "models/model_files.h"

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/architectures.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/quantised/quantisation.h"
#include "models/gguf/gguf_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

class ModelDirectory final : public ModelFiles {
 public:
  explicit ModelDirectory(std::filesystem::path path) : path_(std::move(path)), model_(read_model(path_)) {}

  std::shared_ptr<const Model> model() const override { return model_; }
  std::filesystem::path path() const override { return path_; }
  const char* format() const override { return "safetensors"; }
  int64_t stored_bytes() const override {
    const Checkpoint checkpoint = Checkpoint::open(path_);
    int64_t bytes = 0;
    for (const std::string& name : checkpoint.names())
      bytes += static_cast<int64_t>(checkpoint.tensor(name).bytes.size());
    return bytes;
  }
  std::string weight_format() const override {
    if (const auto quantisation = read_quantisation(path_)) return quantisation->text();
    std::map<std::string, int64_t> bytes;
    try {
      const Checkpoint checkpoint = Checkpoint::open(path_);
      for (const std::string& name : checkpoint.names()) {
        const TensorView& tensor = checkpoint.tensor(name);
        bytes[std::string(dtype_name(tensor.dtype))] += static_cast<int64_t>(tensor.bytes.size());
      }
    } catch (const Error&) {
      // Loading the weights reports it.
    }
    return types_by_size(bytes);
  }
  bool has_tokenizer() const override { return std::filesystem::exists(tokenizer_path()); }
  Tokenizer tokenizer() const override { return Tokenizer::load(path_); }
  std::filesystem::path tokenizer_path() const override {
    const bool is_sentencepiece = !std::filesystem::exists(path_ / "tokenizer.json") &&
                                  std::filesystem::exists(path_ / "tokenizer.model");
    return path_ / (is_sentencepiece ? "tokenizer.model" : "tokenizer.json");
  }
  ChatTemplate chat_template(const Tokenizer& tokenizer) const override {
    return ChatTemplate::of_checkpoint(path_, tokenizer);
  }
  std::optional<PoolingConfig> pooling() const override { return read_sentence_transformers(path_); }
  StoredFormats stored_formats() const override { return serval::stored_formats(path_, *model_); }

 private:
  std::unique_ptr<const WeightSource> open_weights(NotFinite not_finite, const Model& of_run) const override {
    return open_checkpoint_weights(path_, of_run, not_finite);
  }

  const std::filesystem::path path_;
  const std::shared_ptr<const Model> model_;
};

}  // namespace

std::string types_by_size(const std::map<std::string, int64_t>& bytes_of_type) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : bytes_of_type) names.push_back(name);
  std::ranges::stable_sort(names, std::greater<>(),
                           [&](const std::string& name) { return bytes_of_type.at(name); });
  return fmt::format("{}", fmt::join(names, ", "));
}

std::shared_ptr<const ModelFiles> open_model_files(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return std::make_shared<const ModelDirectory>(path);
  return open_gguf_model(path);
}

}  // namespace serval
