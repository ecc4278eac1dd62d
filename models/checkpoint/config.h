// The shape of a Llama model, as config.json and generation_config.json of a Hugging Face directory state it.
//
// Field names and defaults follow transformers' LlamaConfig, in both spellings of RoPE: "rope_theta" with
// "rope_scaling" (transformers 4) and "rope_parameters" (transformers 5). Everything read is checked against
// the limits below before it is used. The functions throw serval::Error(kRuntime) with one line that names
// the file and the field. All types here are plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// What an accepted configuration keeps within.
struct ConfigLimits {
  static constexpr int kDimensionMultiple =
      16;  // of hidden_size and intermediate_size: the tiles are 16 × 16
  static constexpr int kMaxHiddenSize = 1 << 16;
  static constexpr int kMaxIntermediateSize = 1 << 18;
  static constexpr int kMaxLayers = 1 << 10;
  static constexpr int kMaxHeads = 1 << 10;
  static constexpr int kMaxVocabSize = 1 << 20;
  static constexpr int kMaxPosition = 1 << 24;
  static constexpr double kMaxRopeTheta = 1e12;
  static constexpr double kMaxRopeFactor = 1e6;
  static constexpr int kMaxEosIds = 64;
  static constexpr int64_t kMaxFileBytes = 1 << 20;
};

// The "llama3" rope_type: long wavelengths are stretched by `factor`, short ones kept, those between
// interpolated.
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  int64_t original_max_position;  // tokens
};

// What generation_config.json recommends; an absent field is left to the caller.
struct GenerationDefaults {
  std::optional<float> temperature;  // 0 where the file says "do_sample": false
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> repetition_penalty;
};

struct LlamaConfig {
  std::string name;           // the preset's, or that of the model's directory
  int hidden_size = 0;        // a multiple of 16
  int intermediate_size = 0;  // a multiple of 16
  int num_layers = 0;
  int num_heads = 0;     // a multiple of num_kv_heads; num_heads · head_dim need not be hidden_size
  int num_kv_heads = 0;  // grouped-query attention
  int head_dim = 0;      // 64 or 128
  int vocab_size = 0;    // any: vocabularies with added tokens are often odd
  int max_position = 0;  // tokens
  double rms_norm_eps = 0;
  double rope_theta = 0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  std::vector<int32_t> eos_ids;  // each below vocab_size; may be empty
  std::optional<int32_t> bos_id;
  GenerationDefaults generation;

  // Weights of the model; a tied embedding counts once.
  int64_t num_parameters() const;
  // What they occupy in bf16.
  int64_t weight_bytes_bf16() const { return kBytesPerBf16 * num_parameters(); }
  // What a decode step reads of them: all, except the rows of an untied embedding other than the token's own.
  int64_t weight_bytes_per_token() const;

  static constexpr int64_t kBytesPerBf16 = 2;
};

// Reads config.json and, where there is one, generation_config.json, whose token ids win.
LlamaConfig load_config(const std::filesystem::path& model_dir);

// The text of a config.json; `name` becomes the configuration's name and the start of error lines.
LlamaConfig parse_config(std::string_view json_text, const std::string& name);

// The text of a generation_config.json, applied to `config`; `source` starts error lines.
void apply_generation_config(std::string_view json_text, const std::string& source, LlamaConfig& config);

// Radians a position for each pair of a head's elements: head_dim / 2 values, after "llama3" scaling where
// the model has it. Computed in double, rounded once; the formulas are those of transformers'
// modeling_rope_utils.
std::vector<float> rope_inverse_frequencies(const LlamaConfig& config);

}  // namespace serval
