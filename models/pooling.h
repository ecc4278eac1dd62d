// How a model's hidden states become an embedding, as sentence-transformers and GGUF files state it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "vm/base/enum_names.h"

namespace serval {

// Which hidden states of a text, after the final norm, its embedding is made of.
enum class Pooling : uint8_t {
  kLast,  // that of the last token
  kMean,  // the mean of all
  kCls,   // that of the first token
};
template <>
struct EnumNames<Pooling> {
  static constexpr EnumName<Pooling> kTable[] = {
      {Pooling::kLast, "last"}, {Pooling::kMean, "mean"}, {Pooling::kCls, "cls"}};
};

struct PoolingConfig {
  Pooling pooling = Pooling::kLast;
  bool normalize = true;  // to a length of 1
  friend bool operator==(const PoolingConfig&, const PoolingConfig&) = default;
};

// Reads modules.json of a directory that sentence-transformers wrote, and its Pooling module's config.json;
// nullopt without modules.json, or if it has no module of that type. Throws Error(kRuntime) with one line
// that names the file and the field for another kind of pooling, for several, and for modules other than
// Transformer, Pooling and Normalize.
std::optional<PoolingConfig> read_sentence_transformers(const std::filesystem::path& model_dir);

}  // namespace serval
