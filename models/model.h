// A model, as far as the rest of Serval needs to know one: its shape, its weights, its constants and the
// graph of its forward pass. Only the folder of its family, such as models/llama, knows more.
//
// docs/add_a_model.md says how to add one.
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

// What generation_config.json recommends, by the names in instructions/sample/ranges.h and within those
// ranges; what is absent is left to the caller. "temperature" is 0 where the file says "do_sample": false.
using GenerationDefaults = std::map<std::string, double>;

// The facts that decoder-only models share, whatever their formulas.
struct ModelShape {
  std::string name;           // the preset's, or that of the model's directory
  int hidden_size = 0;        // a multiple of 16
  int intermediate_size = 0;  // a multiple of 16
  int num_layers = 0;
  int num_heads = 0;     // a multiple of num_kv_heads; num_heads · head_dim need not be hidden_size
  int num_kv_heads = 0;  // grouped-query attention
  int head_dim = 0;      // 64 or 128
  int vocab_size = 0;    // any: vocabularies with added tokens are often odd
  int max_position = 0;  // tokens
  bool tie_word_embeddings = false;
  std::vector<int32_t> eos_ids;  // each below vocab_size; may be empty
  std::optional<int32_t> bos_id;
  GenerationDefaults generation;

  // Keys and values of a token, all layers, in bf16.
  int64_t kv_bytes_per_token() const;
};

// The graph of a pass depends on these and on nothing else outside the model.
struct GraphOptions {
  uint32_t sms = 1;         // an operation is cut into at most this many instances
  uint32_t context = 4096;  // tokens a sequence may hold
  uint32_t kv_blocks = 0;   // blocks of the KV cache in all; 0: enough for a full context of each sequence
  uint32_t rows = kDefaultRows;            // of a pass
  uint32_t sequences = kDefaultSequences;  // slots of the state
  uint32_t tile_rows = 0;   // rows of a tile, where matrices are multiplied with tiles of rows (GEMMs); 0:
                            // with vectors
  bool tile_order = false;  // with vectors, which are added up in the order of programs of tiles: rows is 1
  uint32_t ranks = 1;       // devices that share the model, each with `sms` SMs
};

// Metadata of a graph: GraphOptions::tile_rows, where it is not 0.
inline constexpr const char* kTileRowsMetadata = "tile_rows";

// A tensor of the graph whose values follow from the model (TensorKind::kConstant).
struct ModelConstant {
  std::string name;
  std::vector<float> values;
};

namespace model_tensor {
// What a graph calls the logits, [rows of a pass, vocabulary] fp32.
inline constexpr const char* kLogits = "logits";
}  // namespace model_tensor

// Immutable where it is shared, which makes it thread-safe.
class Model : public ModelShape {
 public:
  virtual ~Model() = default;

  // In the order in which a forward pass uses them. Names are unique.
  virtual std::vector<WeightSpec> weights() const = 0;
  // Of a graph for sequences of `context` tokens.
  virtual std::vector<ModelConstant> constants(uint32_t context) const = 0;
  // The forward pass, then sampling and the step to the next token. Its weights are among weights(), its
  // constants are constants(options.context). Throws Error(kUsage) if the options are out of range:
  // 1 <= context <= max_position, 1 <= sms <= kMaxSms, 1 <= rows <= kLargestRows, 1 <= sequences <=
  // kLargestSequences, ranks as check_ranks() says (models/ranks.h).
  virtual Graph graph(const GraphOptions& options) const = 0;
  // Whether there is a graph with GraphOptions::tile_order.
  virtual bool has_tile_order() const = 0;
  // The same model with its first `layers` layers only.
  virtual std::unique_ptr<const Model> shortened(int layers) const = 0;
  // Numbers beside the shape that the formulas take, under config.json's names; "rope_scaling.factor" is a
  // member of an object.
  virtual std::map<std::string, double> parameters() const = 0;

  // All weights; a tied embedding counts once.
  int64_t num_parameters() const;
  // What they occupy in bf16.
  int64_t weight_bytes_bf16() const;
  // What a decode step reads of them: all, except the rows of an embedding other than the token's own.
  int64_t weight_bytes_per_token() const;

 protected:
  Model() = default;
  Model(const Model&) = default;
  Model(Model&&) = default;
  Model& operator=(const Model&) = default;
  Model& operator=(Model&&) = default;
};

}  // namespace serval
