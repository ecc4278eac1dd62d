// What a model's files hold: its shape, and, read when asked for, its tokenizer, chat template and weights.
// A Hugging Face directory has them in several files, a GGUF file all in one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

// Immutable; all functions may be called from several threads. Those that read throw Error(kRuntime) with one
// line that names the file and the field.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  virtual std::shared_ptr<const Model> model() const = 0;
  // The directory, or the file: what `-m` would name.
  virtual std::filesystem::path path() const = 0;
  virtual const char* format() const = 0;    // of the weights' files: "safetensors" or "GGUF"
  virtual int64_t stored_bytes() const = 0;  // of the weights in the files
  virtual bool has_tokenizer() const = 0;
  virtual Tokenizer tokenizer() const = 0;
  // The file that it comes from, for error lines.
  virtual std::filesystem::path tokenizer_path() const = 0;
  // The model's own. Throws, naming the choices, where there is none.
  virtual ChatTemplate chat_template(const Tokenizer& tokenizer) const = 0;
  virtual std::unique_ptr<const WeightSource> weights(NotFinite not_finite) const = 0;
};

// A Hugging Face directory or a GGUF file, of a split one the first. Reads the configuration and nothing
// else.
std::shared_ptr<const ModelFiles> open_model_files(const std::filesystem::path& path);

}  // namespace serval
