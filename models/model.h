// The interface of a model: its shape, its weights, its constants and the graph of its forward pass. Details
// of a family stay in its folder, such as models/llama.
//
// docs/add_a_model.md says how to add a model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/weight_spec.h"
#include "scheduler/graph.h"

namespace serval {

// Limits of the values in config.json.
struct ConfigLimits {
  static constexpr int kDimensionMultiple =
      16;  // hidden_size and intermediate_size are multiples of it: tiles are 16 × 16
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

// Sampling parameters that generation_config.json recommends, with the names and within the ranges of
// instructions/sample/ranges.h. Callers choose the absent ones. "temperature" is 0 if the file has
// "do_sample": false.
using GenerationDefaults = std::map<std::string, double>;

// Types in which a model's weight matrices are stored in memory: kBF16 or codes (has_codes()). Vectors and
// the embedding are bf16. A tied LM head of another type than the embedding is a matrix of its own.
struct WeightFormats {
  DType layers = DType::kBF16;  // of the layers' matrices
  DType lm_head = DType::kBF16;
  // Programs of more than 64 rows multiply weights in e4m3 with activations in e4m3 instead of fp16.
  bool e4m3_inputs = false;

  bool all_bf16() const { return layers == DType::kBF16 && lm_head == DType::kBF16; }
  bool operator==(const WeightFormats&) const = default;
};

// Sizes and tokens that all decoder-only models have.
struct ModelShape {
  std::string name;           // of the preset, or of the model's directory or file
  int hidden_size = 0;        // a multiple of 16
  int intermediate_size = 0;  // a multiple of 16
  int num_layers = 0;
  int num_heads = 0;     // a multiple of num_kv_heads; num_heads · head_dim need not be hidden_size
  int num_kv_heads = 0;  // grouped-query attention
  int head_dim = 0;      // 64 or 128
  int vocab_size = 0;    // any size: with added tokens it is often odd
  int max_position = 0;  // tokens
  bool tie_word_embeddings = false;
  bool pools = false;  // passes end in pooled hidden states instead of logits: there is no LM head
  WeightFormats formats = {};
  std::vector<int32_t> eos_ids;  // each below vocab_size; may be empty
  std::optional<int32_t> bos_id;
  GenerationDefaults generation;

  // Bytes of a token's keys and values in all layers, in bf16.
  int64_t kv_bytes_per_token() const;
};

// The graph of a pass depends only on the model and on these options.
struct GraphOptions {
  uint32_t sms = 1;                        // SMs of each device
  uint32_t context = 4096;                 // most tokens of a sequence
  uint32_t kv_blocks = 0;                  // of the KV cache; 0: enough for a full context of each sequence
  uint32_t rows = kDefaultRows;            // most rows of a pass
  uint32_t sequences = kDefaultSequences;  // slots of the state
  uint32_t tile_rows = 0;                  // rows of a GEMM tile; 0: the program multiplies vectors (matvec)
  bool tile_order = false;  // a program of vectors that adds in the order of tiles; needs rows == 1
  uint32_t ranks = 1;       // devices that share the model
};

// Key of the graph's metadata that holds GraphOptions::tile_rows; absent if that is 0.
inline constexpr const char* kTileRowsMetadata = "tile_rows";

// The values of a tensor that the model determines (TensorKind::kConstant).
struct ModelConstant {
  std::string name;
  std::vector<float> values;
};

namespace model_tensor {
// Logits of the rows that need them (logit_rows()), [rows, vocab_size] fp32.
inline constexpr const char* kLogits = "logits";
}  // namespace model_tensor

// Thread-safe: shared models are const.
class Model : public ModelShape {
 public:
  virtual ~Model() = default;

  // In the order of their use in a forward pass. Names are unique.
  virtual std::vector<WeightSpec> weights() const = 0;
  // The constants of a graph with GraphOptions::context == context.
  virtual std::vector<ModelConstant> constants(uint32_t context) const = 0;
  // The forward pass, sampling (or pooling), and the step to the next token. It uses weights from weights()
  // and constants(options.context). Throws Error(kUsage) unless 1 <= context <= max_position, 1 <= sms <=
  // kMaxSms, 1 <= rows <= kLargestRows, 1 <= sequences <= kLargestSequences and check_ranks()
  // (models/ranks.h) accepts `ranks`.
  virtual Graph graph(const GraphOptions& options) const = 0;
  // True if graph() supports WeightFormats::e4m3_inputs: rows of its products' inputs are whole slabs of
  // e4m3.
  virtual bool has_e4m3_inputs() const = 0;
  // True if graph() supports GraphOptions::tile_order.
  virtual bool has_tile_order() const = 0;
  // A copy that pools hidden states, for embeddings.
  virtual std::unique_ptr<const Model> pooling() const = 0;
  // A copy whose weights have these formats.
  virtual std::unique_ptr<const Model> with_formats(const WeightFormats& formats) const = 0;
  // A copy with only the first `layers` layers.
  virtual std::unique_ptr<const Model> shortened(int layers) const = 0;
  // Other parameters of the formulas, under their names in config.json. A dot separates an object and its
  // member, as in "rope_scaling.factor".
  virtual std::map<std::string, double> parameters() const = 0;

  // A tied embedding counts once.
  int64_t num_parameters() const;
  // Size of all weights in memory, in their storage types.
  int64_t weight_bytes() const;
  // Bytes of weights that a decode step reads: everything except the embedding rows of other tokens.
  int64_t weight_bytes_per_token() const;

 protected:
  Model() = default;
  Model(const Model&) = default;
  Model(Model&&) = default;
  Model& operator=(const Model&) = default;
  Model& operator=(Model&&) = default;
};

}  // namespace serval
