#include "models/gguf/gguf_model.h"

#include <map>
#include <string>
#include <utility>

#include "models/gguf/gguf_config.h"
#include "models/gguf/gguf_set.h"
#include "models/gguf/gguf_tokenizer.h"
#include "models/gguf/gguf_weights.h"

namespace serval {
namespace {

class GgufModel final : public ModelFiles {
 public:
  explicit GgufModel(const std::filesystem::path& path)
      : files_(std::make_shared<const GgufSet>(path)),
        model_(read_gguf_model(
            files_->fields(), [this](std::string_view name) { return files_->find(name); },
            path.stem().string())) {}

  std::shared_ptr<const Model> model() const override { return model_; }
  std::filesystem::path path() const override { return files_->path(); }
  const char* format() const override { return "GGUF"; }
  int64_t stored_bytes() const override {
    int64_t bytes = 0;
    for (const GgufTensor* tensor : files_->tensors()) bytes += static_cast<int64_t>(tensor->bytes.size());
    return bytes;
  }
  std::string weight_format() const override {
    std::map<std::string, int64_t> bytes;
    for (const GgufTensor* tensor : files_->tensors())
      bytes[std::string(tensor->type->name)] += static_cast<int64_t>(tensor->bytes.size());
    return types_by_size(bytes);
  }
  bool has_tokenizer() const override { return has_gguf_tokenizer(files_->fields()); }
  Tokenizer tokenizer() const override { return read_gguf_tokenizer(files_->fields()); }
  std::filesystem::path tokenizer_path() const override { return files_->path(); }
  StoredFormats stored_formats() const override { return gguf_stored_formats(*files_, *model_); }
  ChatTemplate chat_template(const Tokenizer& tokenizer) const override {
    return read_gguf_chat_template(files_->fields(), tokenizer);
  }
  std::optional<PoolingConfig> pooling() const override { return read_gguf_pooling(files_->fields()); }

 private:
  std::unique_ptr<const WeightSource> open_weights(NotFinite not_finite, const Model& of_run) const override {
    return open_gguf_weights(files_, of_run, not_finite);
  }

  const std::shared_ptr<const GgufSet> files_;
  const std::shared_ptr<const Model> model_;
};

}  // namespace

std::shared_ptr<const ModelFiles> open_gguf_model(const std::filesystem::path& path) {
  return std::make_shared<const GgufModel>(path);
}

}  // namespace serval
