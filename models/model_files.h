// A model's files: a Hugging Face directory, or a GGUF file, which holds everything. The configuration is
// read at once; tokenizer, chat template and weights are read by the functions that return them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "models/checkpoint/stored_formats.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "models/pooling.h"
#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace serval {

// Immutable and thread-safe. Functions that read files throw Error(kRuntime) with one line that names the
// file and the field.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;
  virtual std::shared_ptr<const Model> model() const = 0;
  // The directory or file, as passed to `-m`.
  virtual std::filesystem::path path() const = 0;
  virtual const char* format() const = 0;    // of the weights: "safetensors" or "GGUF"
  virtual int64_t stored_bytes() const = 0;  // size of the weights as stored
  // How the weights are stored: types of the file's tensors, most bytes first, such as "Q4_K, Q6_K, F32"; or,
  // for a quantised directory, method and scheme, such as "gptq: 4-bit integers in groups of 128". Empty if
  // the directory has no weights.
  virtual std::string weight_format() const = 0;
  virtual bool has_tokenizer() const = 0;
  virtual Tokenizer tokenizer() const = 0;
  // File that holds the tokenizer, for error lines.
  virtual std::filesystem::path tokenizer_path() const = 0;
  // The model's own chat template. If it has none, throws an error that names the alternatives.
  virtual ChatTemplate chat_template(const Tokenizer& tokenizer) const = 0;
  // The types in which the matrices can be kept in memory as they are stored; bf16 unless a directory has
  // codes that can be kept. Reads no weights.
  virtual StoredFormats stored_formats() const { return {}; }
  // How the model's files say that embeddings are made; nullopt if they do not. Reads no weights.
  virtual std::optional<PoolingConfig> pooling() const { return std::nullopt; }
  // For a run of model(), or of a copy of it: with_formats(), whose matrices that are codes there and stored
  // so are kept, or pooling().
  std::unique_ptr<const WeightSource> weights(NotFinite not_finite) const {
    return weights(not_finite, *model());
  }
  std::unique_ptr<const WeightSource> weights(NotFinite not_finite, const Model& of_run) const {
    return open_weights(not_finite, of_run);
  }

 protected:
  virtual std::unique_ptr<const WeightSource> open_weights(NotFinite not_finite,
                                                           const Model& of_run) const = 0;
};

// The names of types, most bytes first: "BF16, F32".
std::string types_by_size(const std::map<std::string, int64_t>& bytes_of_type);

// Opens a Hugging Face directory or a GGUF file (the first one of a split model). Reads only the
// configuration.
std::shared_ptr<const ModelFiles> open_model_files(const std::filesystem::path& path);

}  // namespace serval
