#include "models/llama/graph.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "instructions/common/column_parts.h"
#include "instructions/common/slices.h"
#include "instructions/common/tile_shape.h"
#include "instructions/kernels.h"
#include "models/ranks.h"
#include "vm/base/error.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/row_tiles.h"
#include "vm/reflect.h"
#include "vm/state/names.h"

namespace serval {
namespace {

// Calls fn(first, count) for at most `parts` consecutive ranges that cover [0, units). Their sizes differ by
// at most one.
template <class Fn>
void split(uint32_t units, uint32_t parts, Fn&& fn) {
  parts = std::min(parts, units);
  for (uint32_t p = 0; p < parts; ++p) {
    const auto begin = static_cast<uint32_t>(uint64_t{units} * p / parts);
    const auto end = static_cast<uint32_t>(uint64_t{units} * (p + 1) / parts);
    fn(begin, end - begin);
  }
}

std::string layer_prefix(int layer) {
  return fmt::format("model.layers.{}.", layer);
}

// Fewer columns are not worth an instance.
constexpr uint32_t kEmbedColumns = 256;
// Sampling is split into at least this many instances (one for each row if there are fewer rows), even on
// fewer SMs: the GPU kernels need it.
constexpr uint32_t kSampleInstances = 16;

// Row tiles that a stage multiplies before it streams its weights again. Smaller groups stream the weights
// more often, but the next stage can start earlier, which hides the exchange between ranks.
constexpr uint32_t group_tiles(uint32_t ranks) {
  return ranks > 1 ? 2 : 4;
}

class Builder {
 public:
  Builder(const LlamaConfig& config, const GraphOptions& options);
  Graph build();

 private:
  void add_state();
  void add_results();
  void add_activations();
  void add_logits();
  // Adds a tensor for each rank, in consecutive entries of the table, and returns that of rank 0. The tensor
  // of rank r is at index + r.
  TensorId on_each_rank(Tensor tensor);
  // Adds a weight: each rank's tensor holds its part.
  TensorId weight(const std::string& name);
  TensorId state(const char* name, uint64_t rows, uint64_t bytes);
  TensorId activation(const char* name, DType dtype, uint64_t rows, uint64_t cols);
  // The input of products with weights of type `weights`.
  TensorId product_input(const char* name, uint64_t cols, DType weights);
  // The tensor of a product's input in e4m3, if products of weights of type `weights` read that; else
  // `input`.
  TensorId codes_of(TensorId input, DType weights);
  TensorId cache(const std::string& name);
  // Tensors of rank 0 only, which does the sampling.
  TensorId sampling_state(const char* name, uint64_t rows, uint64_t bytes);
  TensorId sampling_activation(const char* name, uint64_t rows, uint64_t cols);

  // Begins a stage and calls fn(rank), which adds the rank's instances.
  template <class Fn>
  void for_ranks(std::string stage, Fn&& fn);
  // Adds an instance on a rank. The operands of `op` name rank 0's tensors and are moved to the rank's,
  // except the tensors that it pushes to.
  template <class Op>
  void add(Op op, uint32_t rank, uint16_t layer = kNoTag);

  struct Units {
    uint32_t begin, count;
    uint32_t min_count = 1;  // there are at most count / min_count instances, rounded up
  };
  // Adds a stage that splits the units and the first `rows` rows of `op` into instances.
  template <class Op>
  void add_units(std::string stage, const Op& op, uint32_t units, TileShape tile, uint32_t rows,
                 uint16_t layer = kNoTag);
  // As add_units(), on one rank, in the current stage.
  template <class Op>
  void add_units_of_rank(Op op, uint32_t rank, Units units, TileShape tile, uint32_t rows,
                         uint16_t layer = kNoTag);
  bool multiplies_tiles() const { return order_ == Order::kTile; }
  TileShape whole_tile(uint32_t units) const { return {units, options_.tile_rows}; }
  // Tile of a matrix of `units` units. Only programs of tiles use it.
  TileShape tile_of(uint32_t units, uint32_t rows, uint32_t parts = 1) const {
    return multiplies_tiles() ? tile_shape(units, rows, options_.tile_rows, options_.sms, parts)
                              : whole_tile(kTileUnits);
  }
  // For two matrices of `units` units each that are multiplied together: units of each in a tile.
  uint32_t pair_units(uint32_t units, uint32_t rows) const;

  // Adds the stage that rounds a product's input to `codes`, unless both are one tensor. Returns `codes`.
  TensorId quantised(uint16_t layer, TensorId input, TensorId codes, uint32_t logits_only);

  void embed();
  // As embed(), for several ranks: each has a part of the embedding table.
  void embed_push();
  // Splits an embedding lookup into instances.
  template <class Op>
  void add_embedding(Op op, uint32_t rank);
  void layer(uint16_t index);
  // Adds the stage that multiplies Q, K and V.
  template <class Op>
  void add_projections(const char* name, const Op& op, uint16_t layer);
  void qkv_rope(uint16_t layer, const std::string& prefix, TensorId input, TensorId k_cache,
                TensorId v_cache);
  // qkv_rope() in two stages. Used if the tiles of a rank are too few for its SMs: columns are split into
  // parts.
  void project_parts(const QkvRope& op, uint16_t layer);
  void rope_parts(const QkvRope& op, uint16_t layer);
  // qkv_rope() in two stages for models with norms of the heads of Q and K.
  void qkv_project(uint16_t layer, const std::string& prefix, TensorId input);
  void qk_norm_rope(uint16_t layer, const std::string& prefix, TensorId k_cache, TensorId v_cache);
  void attention(uint16_t layer, TensorId k_cache, TensorId v_cache);
  void attention_merge(uint16_t layer);
  // attention() for programs of the arithmetic class of tiles: the host plans the items of each launch.
  void planned_attention(uint16_t layer, TensorId k_cache, TensorId v_cache);
  void planned_merge(uint16_t layer);
  // The norm that is applied to the residual next, and the tensor of the rows that it weights.
  struct NextNorm {
    TensorId weights, weighted;
  };
  // The norm before layer `index`; for index == num_layers, the final norm.
  NextNorm norm_before(int index);
  // residual += weights · input.
  struct ResidualProduct {
    TensorId weights, input;
    NextNorm next;
    uint32_t in_cols;
    uint32_t parts;  // of the columns (instructions/common/column_parts.h)
    uint16_t layer;
    uint32_t rows;
    TileShape tile;
  };
  void add_to_residual(uint16_t layer, const std::string& name, TensorId input, uint32_t in_cols,
                       NextNorm next);
  // For several ranks: each multiplies its columns and pushes the partial sums to the ranks that own the
  // output columns. reduce_residual() adds them there.
  void matvec_push(uint16_t layer, const std::string& name, TensorId input, uint32_t in_cols);
  // begins: 1 if there is no residual yet (ReduceResidual::begins).
  void reduce_residual(std::string stage, uint16_t layer, NextNorm next, uint32_t begins);
  void matvec_residual(const ResidualProduct& product);
  // matvec_residual() in two stages. Used if its tiles are too few for the SMs: columns are split into parts.
  void matvec_parts(const ResidualProduct& product);
  void add_parts(const ResidualProduct& product);
  // Tensor for the sums over part `part` of the columns. All matrices share it.
  TensorId part_sums(uint32_t part);
  // 1 for the last layer: after its attention, instructions skip the rows that need no logits, such as a
  // prompt's tokens except the last one.
  uint32_t logits_only(uint16_t layer) const { return layer + 1 == config_.num_layers ? 1 : 0; }
  uint32_t computed_rows(uint16_t layer) const {
    return logits_only(layer) != 0 ? logit_rows_ : options_.rows;
  }
  void gate_up_silu(uint16_t layer, const std::string& prefix, TensorId input);
  void lm_head();
  void pool();
  uint32_t sample_records() const { return std::min(logit_rows_, std::max(options_.sms, kSampleInstances)); }
  void sample();
  void advance();
  void push_state();

  const LlamaConfig& config_;
  const GraphOptions& options_;
  const Order order_;
  // intermediate_ and the heads are those of one rank.
  const uint32_t hidden_, intermediate_, vocab_;
  const HeadShape heads_;
  const float epsilon_;
  const uint32_t projection_parts_;  // of the columns of Q, K and V (instructions/common/column_parts.h)
  uint32_t kv_blocks_;
  const uint32_t logit_rows_, drawing_rows_;
  uint32_t splits_;  // of each KV head's leaves
  Graph graph_;
  std::map<std::string, WeightSpec> weights_;  // by name
  TensorId embedding_, final_norm_, rope_, residual_, weighted_, head_input_, squares_, projected_, query_,
      partial_, attention_, mlp_, weighted_codes_, head_codes_, attention_codes_, mlp_codes_, logits_,
      unit_softmax_, saved_, exchange_;
  TensorId rows_, slots_, sampled_, control_, output_, host_stop_, block_table_, adjustments_, masks_, top_,
      pooled_;
  TensorId items_;                   // of planned attention
  std::vector<TensorId> part_sums_;  // added on first use
};

Builder::Builder(const LlamaConfig& config, const GraphOptions& options)
    : config_(config),
      options_(options),
      order_(options.tile_order      ? Order::kVectorInTileOrder
             : options.tile_rows > 0 ? Order::kTile
                                     : Order::kVector),
      hidden_(static_cast<uint32_t>(config.hidden_size)),
      intermediate_(static_cast<uint32_t>(config.intermediate_size) / options.ranks),
      vocab_(static_cast<uint32_t>(config.vocab_size)),
      heads_{static_cast<uint32_t>(config.head_dim), static_cast<uint32_t>(config.num_heads) / options.ranks,
             kv_heads_of_rank(static_cast<uint32_t>(config.num_kv_heads), options.ranks)},
      epsilon_(static_cast<float>(config.rms_norm_eps)),
      projection_parts_(options.ranks > 1 && options.tile_rows > 0 && !config.qk_norm
                            ? projection_parts(qkv_cols(heads_), hidden_)
                            : 1),
      kv_blocks_(options.kv_blocks > 0 ? options.kv_blocks
                                       : options.sequences * blocks_for_tokens(options.context)),
      logit_rows_(logit_rows({.rows = options.rows, .sequences = options.sequences})),
      drawing_rows_(drawing_rows({.rows = options.rows, .sequences = options.sequences})),
      splits_(std::clamp(options.sms / heads_.kv_heads, 1U, leaves_for_tokens(options.context))) {
  // A short sequence has a single leaf. With at least as many splits as slots, short sequences do not share a
  // split.
  splits_ = std::max(splits_, std::min(options.sms / heads_.kv_heads, options.sequences));
  for (WeightSpec& spec : llama_weights(config)) weights_.emplace(spec.name, std::move(spec));
}

Graph Builder::build() {
  graph_.order = order_;
  graph_.heads = heads_;
  graph_.limits = {vocab_,        options_.context,   kv_blocks_,
                   options_.rows, options_.sequences, config_.pools ? hidden_ : 0};
  graph_.metadata["model"] = config_.name;
  graph_.metadata["layers"] = std::to_string(config_.num_layers);
  graph_.num_devices = options_.ranks;
  if (options_.ranks > 1) graph_.metadata["ranks"] = std::to_string(options_.ranks);
  if (multiplies_tiles()) graph_.metadata[kTileRowsMetadata] = std::to_string(options_.tile_rows);
  add_state();
  add_activations();
  if (options_.ranks > 1) {
    embed_push();
    reduce_residual("embed reduce_residual", kNoTag, norm_before(0), 1);
  } else {
    embed();
  }
  for (int i = 0; i < config_.num_layers; ++i) layer(static_cast<uint16_t>(i));
  if (config_.pools) {
    pool();
  } else {
    lm_head();
    sample();
  }
  advance();
  if (options_.ranks > 1) push_state();
  return std::move(graph_);
}

TensorId Builder::on_each_rank(Tensor tensor) {
  const auto first = static_cast<uint32_t>(graph_.tensors.size());
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    tensor.device = static_cast<uint8_t>(rank);
    graph_.add_tensor(tensor);
  }
  return {first};
}

TensorId Builder::weight(const std::string& name) {
  const WeightSpec& spec = weights_.at(name);
  const TensorId first =
      on_each_rank({.name = name,
                    .dtype = spec.dtype,
                    .kind = TensorKind::kWeight,
                    .row_order = spec.row_order,
                    .head_dim = spec.row_order == RowOrder::kRotaryPairs ? heads_.head_dim : 0});
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const WeightPart part = part_of_rank(spec, rank, options_.ranks);
    Tensor& tensor = graph_.tensors[first.index + rank];
    tensor.rows = static_cast<uint64_t>(part.rows);
    tensor.cols = static_cast<uint64_t>(part.cols);
    tensor.image = image_of(tensor.kind, tensor.rows);
  }
  return first;
}

TensorId Builder::state(const char* name, uint64_t rows, uint64_t bytes) {
  return on_each_rank(
      {.name = name, .rows = rows, .cols = bytes, .dtype = DType::kBytes, .kind = TensorKind::kState});
}

TensorId Builder::sampling_state(const char* name, uint64_t rows, uint64_t bytes) {
  return graph_.add_tensor(
      {.name = name, .rows = rows, .cols = bytes, .dtype = DType::kBytes, .kind = TensorKind::kState});
}

TensorId Builder::activation(const char* name, DType dtype, uint64_t rows, uint64_t cols) {
  return on_each_rank(
      {.name = name, .rows = rows, .cols = cols, .dtype = dtype, .kind = TensorKind::kActivation});
}

// The input of a product, for all rows of a pass.
TensorId Builder::product_input(const char* name, uint64_t cols, DType weights) {
  return on_each_rank({.name = name,
                       .rows = options_.rows,
                       .cols = cols,
                       .dtype = input_of_weights(weights),
                       .kind = TensorKind::kActivation,
                       .image = product_image(order_)});
}

TensorId Builder::codes_of(TensorId input, DType weights) {
  const bool quantises = config_.formats.e4m3_inputs && weights == DType::kE4M3 && multiplies_tiles() &&
                         options_.rows > kMostWideTileRows;
  if (!quantises) return input;
  Tensor codes = graph_.tensors[input.index];
  codes.name += llama_tensor::kCodes;
  codes.dtype = DType::kE4M3;
  return graph_.add_tensor(std::move(codes));
}

TensorId Builder::sampling_activation(const char* name, uint64_t rows, uint64_t cols) {
  return graph_.add_tensor(
      {.name = name, .rows = rows, .cols = cols, .dtype = DType::kF32, .kind = TensorKind::kActivation});
}

TensorId Builder::cache(const std::string& name) {
  return on_each_rank({.name = name,
                       .rows = heads_.kv_cols(),
                       .cols = uint64_t{kv_blocks_} * kKvBlockTokens,
                       .dtype = DType::kBF16,
                       .kind = TensorKind::kKvCache,
                       .image = Image::kKvBlocks,
                       .head_dim = heads_.head_dim});
}

template <class Fn>
void Builder::for_ranks(std::string stage, Fn&& fn) {
  graph_.begin_stage(std::move(stage));
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) fn(rank);
}

template <class Op>
void Builder::add(Op op, uint32_t rank, uint16_t layer) {
  graph_.add(on_rank(op, rank), layer);
}

void Builder::add_state() {
  rows_ = state(state_tensor::kRows, options_.rows, sizeof(PassRow));
  slots_ = sampling_state(state_tensor::kSlots, options_.sequences, sizeof(SequenceSlot));
  sampled_ = sampling_state(state_tensor::kSampled, options_.rows, sizeof(SampledToken));
  control_ = state(state_tensor::kControl, 1, sizeof(PassControl));
  output_ = sampling_state(state_tensor::kOutput, launch_passes(options_.rows),
                           options_.rows * sizeof(OutputToken));
  adjustments_ =
      sampling_state(state_tensor::kAdjustments, options_.sequences, adjustment_bytes(options_.context));
  add_results();
  host_stop_ = sampling_state(state_tensor::kHostStop, 1, sizeof(uint32_t));
  block_table_ = on_each_rank({.name = state_tensor::kBlockTable,
                               .rows = options_.sequences,
                               .cols = blocks_for_tokens(options_.context),
                               .dtype = DType::kI32,
                               .kind = TensorKind::kState});
  if (adds_as_tiles(order_)) items_ = state(state_tensor::kAttention, 1, attention_list_bytes(options_.rows));
}

// Where the results of sampling or pooling are, and masks.
void Builder::add_results() {
  if (config_.pools) {
    pooled_ = graph_.add_tensor({.name = state_tensor::kPooled,
                                 .rows = options_.sequences,
                                 .cols = hidden_,
                                 .dtype = DType::kF32,
                                 .kind = TensorKind::kState});
    return;
  }
  masks_ = graph_.add_tensor({.name = state_tensor::kMasks,
                              .rows = options_.sequences,
                              .cols = mask_pitch(vocab_),
                              .dtype = DType::kI32,
                              .kind = TensorKind::kState});
  top_ = sampling_state(state_tensor::kTop, logit_rows_, sizeof(TopTokens));
}

void Builder::add_activations() {
  const uint32_t rows = options_.rows;
  const PartialLayout partial{splits_, heads_.group_heads(), heads_.head_dim, whole_row_tiles(rows)};
  residual_ = activation(llama_tensor::kResidual, DType::kF32, rows, hidden_);
  weighted_ = product_input(llama_tensor::kWeighted, hidden_, config_.formats.layers);
  head_input_ = config_.formats.lm_head == config_.formats.layers
                    ? weighted_
                    : product_input(llama_tensor::kHeadInput, hidden_, config_.formats.lm_head);
  squares_ = activation(llama_tensor::kSquares, DType::kF32, rows, hidden_ / square_cols(order_));
  if (config_.qk_norm || projection_parts_ > 1) {
    projected_ = activation(llama_tensor::kProjected, DType::kF32, rows,
                            uint64_t{projection_parts_} * qkv_cols(heads_));
  }
  query_ = activation(llama_tensor::kQuery, DType::kBF16, rows, heads_.q_cols());
  const PlaceLayout places{heads_.group_heads(), heads_.head_dim};
  partial_ = adds_as_tiles(order_)
                 ? activation(llama_tensor::kPartial, DType::kF32, kAttentionPlaces, places.cols())
                 : activation(llama_tensor::kPartial, DType::kF32, partial.rows_of_all(heads_.kv_heads),
                              partial.cols(options_.context));
  attention_ = product_input(llama_tensor::kAttention, heads_.q_cols(), config_.formats.layers);
  mlp_ = product_input(llama_tensor::kMlp, intermediate_, config_.formats.layers);
  weighted_codes_ = codes_of(weighted_, config_.formats.layers);
  head_codes_ = head_input_ == weighted_ ? weighted_codes_ : codes_of(head_input_, config_.formats.lm_head);
  attention_codes_ = codes_of(attention_, config_.formats.layers);
  mlp_codes_ = codes_of(mlp_, config_.formats.layers);
  if (options_.ranks > 1)
    exchange_ = activation(llama_tensor::kExchange, partial_sum_type(order_), rows, hidden_);
  if (!config_.pools) add_logits();
  rope_ = on_each_rank({.name = llama_tensor::kRope,
                        .rows = options_.context,
                        .cols = heads_.head_dim,
                        .dtype = DType::kF32,
                        .kind = TensorKind::kConstant});
  embedding_ = weight(llama_tensor::kEmbedding);
}

void Builder::add_logits() {
  logits_ = sampling_activation(model_tensor::kLogits, logit_rows_, vocab_);
  unit_softmax_ = sampling_activation(llama_tensor::kUnitSoftmax, logit_rows_,
                                      vocabulary_units(vocab_) * kUnitSoftmaxCols);
  saved_ =
      sampling_activation(llama_tensor::kSavedLogits, sample_records(), saved_cols(vocab_, options_.context));
}

uint32_t Builder::pair_units(uint32_t units, uint32_t rows) const {
  const WeightCodes codes = serval::codes_of({config_.formats.layers, config_.formats.lm_head});
  if (!multiplies_tiles() || !takes_wide_tiles(options_.rows, heads_.head_dim, codes))
    return kUnitsOfPairTile;
  // The busiest SM decides when a stage ends. A wide tile is twice the work, so use wide tiles only if they
  // halve the number of tiles on that SM.
  const auto tiles_of_busiest_sm = [&](uint32_t tile_units) {
    return (num_tiles(units, whole_tile(tile_units), rows) + options_.sms - 1) / options_.sms;
  };
  const bool halves = 2 * tiles_of_busiest_sm(kUnitsOfWidePairTile) <= tiles_of_busiest_sm(kUnitsOfPairTile);
  return halves ? kUnitsOfWidePairTile : kUnitsOfPairTile;
}

template <class Op>
void Builder::add_units(std::string stage, const Op& op, uint32_t units, TileShape tile, uint32_t rows,
                        uint16_t layer) {
  for_ranks(std::move(stage), [&](uint32_t rank) {
    add_units_of_rank(op, rank, {0, units}, tile, rows, layer);
  });
}

template <class Op>
void Builder::add_units_of_rank(Op op, uint32_t rank, Units units, TileShape tile, uint32_t rows,
                                uint16_t layer) {
  const auto add_range = [&](uint32_t first, uint32_t count) {
    op.first_unit = units.begin + first;
    op.num_units = count;
    if constexpr (requires { op.part; }) {
      for (op.part = 0; op.part < op.parts; ++op.part) add(op, rank, layer);
    } else {
      add(op, rank, layer);
    }
  };
  op.num_rows = rows;
  const uint32_t parts = std::min(options_.sms, (units.count + units.min_count - 1) / units.min_count);
  if (!multiplies_tiles()) return split(units.count, parts, add_range);
  // Consecutive instances use the same weights, so that SMs that run them together read them from memory
  // once. Row groups are the outer loop, so that the next stage can start on the first group while this stage
  // works on the last.
  const uint32_t group_rows = group_tiles(options_.ranks) * options_.tile_rows;
  for (uint32_t group = 0; group < rows; group += group_rows) {
    for (uint32_t unit = 0; unit < units.count; unit += tile.units) {
      for (uint32_t row = group; row < std::min(group + group_rows, rows); row += tile.rows) {
        op.first_row = row;
        op.num_rows = std::min(tile.rows, rows - row);
        add_range(unit, std::min(tile.units, units.count - unit));
      }
    }
  }
}

void Builder::embed() {
  const NextNorm next = norm_before(0);
  const Embed all{.table = embedding_,
                  .rows = rows_,
                  .norm = next.weights,
                  .residual = residual_,
                  .weighted = next.weighted,
                  .squares = squares_,
                  .first_unit = 0,
                  .num_units = hidden_ / kUnitRows,
                  .hidden = hidden_,
                  .vocab = vocab_,
                  .num_rows = options_.rows};
  graph_.begin_stage("embed");
  add_embedding(all, 0);
}

void Builder::embed_push() {
  EmbedPush op{.table = embedding_,
               .rows = rows_,
               .partial = {exchange_.index},
               .first_unit = 0,
               .num_units = hidden_ / kUnitRows,
               .out_cols = hidden_,
               .vocab = vocab_,
               .first_token = 0,
               .num_tokens = 0,
               .rank = 0,
               .ranks = options_.ranks,
               .num_rows = options_.rows};
  for_ranks("embed_push", [&](uint32_t rank) {
    const VocabularyShare share = vocabulary_share(vocab_, rank, options_.ranks);
    op.first_token = static_cast<uint32_t>(share.first);
    op.num_tokens = static_cast<uint32_t>(share.count);
    op.rank = rank;
    add_embedding(op, rank);
  });
}

template <class Op>
void Builder::add_embedding(Op op, uint32_t rank) {
  if (multiplies_tiles()) {
    split(options_.rows, options_.sms, [&](uint32_t first, uint32_t count) {
      op.first_row = first;
      op.num_rows = count;
      add(op, rank);
    });
    return;
  }
  constexpr uint32_t kUnitsOfTile = kTileDim / kUnitRows;
  split(hidden_ / kTileDim, std::min(options_.sms, (hidden_ + kEmbedColumns - 1) / kEmbedColumns),
        [&](uint32_t first, uint32_t count) {
          op.first_unit = first * kUnitsOfTile;
          op.num_units = count * kUnitsOfTile;
          add(op, rank);
        });
}

TensorId Builder::quantised(uint16_t layer, TensorId input, TensorId codes, uint32_t logits_only) {
  if (codes == input) return input;
  // Passes of few rows have an instance for each, so that all SMs take part.
  constexpr uint32_t kMostRows = 8, kInstancesOfFewRows = 128;
  const uint32_t rows = logits_only != 0 ? logit_rows_ : options_.rows;
  const uint32_t of_instance = std::clamp(options_.rows / kInstancesOfFewRows, 1U, kMostRows);
  QuantiseRows op{.input = input,
                  .rows = rows_,
                  .output = codes,
                  .cols = static_cast<uint32_t>(graph_.tensors[input.index].cols),
                  .logits_only = logits_only,
                  .num_rows = 0};
  const std::string& name = graph_.tensors[input.index].name;
  graph_.begin_stage(layer == kNoTag ? fmt::format("quantise_rows {}", name)
                                     : fmt::format("layer {} quantise_rows {}", layer, name));
  for (op.first_row = 0; op.first_row < rows; op.first_row += of_instance) {
    op.num_rows = std::min(of_instance, rows - op.first_row);
    add(op, 0, layer);
  }
  return codes;
}

void Builder::layer(uint16_t index) {
  const std::string prefix = layer_prefix(index);
  const TensorId k_cache = cache(fmt::format("cache.{}.k", index));
  const TensorId v_cache = cache(fmt::format("cache.{}.v", index));
  const TensorId input = quantised(index, weighted_, weighted_codes_, 0);
  if (config_.qk_norm) {
    qkv_project(index, prefix, input);
    qk_norm_rope(index, prefix, k_cache, v_cache);
  } else {
    qkv_rope(index, prefix, input, k_cache, v_cache);
  }
  if (adds_as_tiles(order_)) {
    planned_attention(index, k_cache, v_cache);
    if (!attention_is_whole(options_.context)) planned_merge(index);
  } else {
    attention(index, k_cache, v_cache);
    attention_merge(index);
  }
  const uint32_t wanted = logits_only(index);
  add_to_residual(index, prefix + "self_attn.o_proj.weight",
                  quantised(index, attention_, attention_codes_, wanted), heads_.q_cols(),
                  {weight(prefix + "post_attention_layernorm.weight"), weighted_});
  gate_up_silu(index, prefix, quantised(index, weighted_, weighted_codes_, wanted));
  add_to_residual(index, prefix + "mlp.down_proj.weight", quantised(index, mlp_, mlp_codes_, wanted),
                  intermediate_, norm_before(index + 1));
}

Builder::NextNorm Builder::norm_before(int index) {
  if (index == config_.num_layers) return {final_norm_ = weight(llama_tensor::kFinalNorm), head_input_};
  return {weight(layer_prefix(index) + "input_layernorm.weight"), weighted_};
}

template <class Op>
void Builder::add_projections(const char* name, const Op& op, uint16_t layer) {
  const uint32_t units = qkv_units(heads_);
  add_units(fmt::format("layer {} {}", layer, name), op, units,
            tile_of(units, options_.rows, projection_parts_), options_.rows, layer);
}

void Builder::qkv_rope(uint16_t layer, const std::string& prefix, TensorId input, TensorId k_cache,
                       TensorId v_cache) {
  QkvRope op{.weighted = input,
             .squares = squares_,
             .wq = weight(prefix + "self_attn.q_proj.weight"),
             .wk = weight(prefix + "self_attn.k_proj.weight"),
             .wv = weight(prefix + "self_attn.v_proj.weight"),
             .rope = rope_,
             .rows = rows_,
             .block_table = block_table_,
             .q = query_,
             .k_cache = k_cache,
             .v_cache = v_cache,
             .first_unit = 0,
             .num_units = 0,
             .hidden = hidden_,
             .epsilon = epsilon_,
             .num_rows = options_.rows};
  if (config_.qkv_bias) {
    op.q_bias = weight(prefix + "self_attn.q_proj.bias");
    op.k_bias = weight(prefix + "self_attn.k_proj.bias");
    op.v_bias = weight(prefix + "self_attn.v_proj.bias");
  }
  if (projection_parts_ == 1) return add_projections("qkv_rope", op, layer);
  project_parts(op, layer);
  rope_parts(op, layer);
}

void Builder::project_parts(const QkvRope& op, uint16_t layer) {
  add_projections("project_part",
                  ProjectPart{.weighted = op.weighted,
                              .wq = op.wq,
                              .wk = op.wk,
                              .wv = op.wv,
                              .rows = op.rows,
                              .sums = projected_,
                              .first_unit = 0,
                              .num_units = 0,
                              .hidden = op.hidden,
                              .part = 0,
                              .parts = projection_parts_,
                              .num_rows = op.num_rows},
                  layer);
}

void Builder::rope_parts(const QkvRope& op, uint16_t layer) {
  const RopeParts all{.sums = projected_,
                      .squares = op.squares,
                      .rope = op.rope,
                      .rows = op.rows,
                      .block_table = op.block_table,
                      .q = op.q,
                      .k_cache = op.k_cache,
                      .v_cache = op.v_cache,
                      .q_bias = op.q_bias,
                      .k_bias = op.k_bias,
                      .v_bias = op.v_bias,
                      .first_unit = 0,
                      .num_units = 0,
                      .hidden = op.hidden,
                      .parts = projection_parts_,
                      .epsilon = op.epsilon,
                      .num_rows = op.num_rows};
  const uint32_t units = qkv_units(heads_);
  add_units(fmt::format("layer {} rope_parts", layer), all, units,
            added_shape(units, options_.rows, options_.tile_rows, options_.sms), options_.rows, layer);
}

void Builder::qkv_project(uint16_t layer, const std::string& prefix, TensorId input) {
  const QkvProject op{.weighted = input,
                      .squares = squares_,
                      .wq = weight(prefix + "self_attn.q_proj.weight"),
                      .wk = weight(prefix + "self_attn.k_proj.weight"),
                      .wv = weight(prefix + "self_attn.v_proj.weight"),
                      .rows = rows_,
                      .projected = projected_,
                      .first_unit = 0,
                      .num_units = 0,
                      .hidden = hidden_,
                      .epsilon = epsilon_,
                      .num_rows = options_.rows};
  add_projections("qkv_project", op, layer);
}

void Builder::qk_norm_rope(uint16_t layer, const std::string& prefix, TensorId k_cache, TensorId v_cache) {
  const uint32_t heads = heads_.q_heads + 2 * heads_.kv_heads;
  const QkNormRope all{.projected = projected_,
                       .q_norm = weight(prefix + "self_attn.q_norm.weight"),
                       .k_norm = weight(prefix + "self_attn.k_norm.weight"),
                       .rope = rope_,
                       .rows = rows_,
                       .block_table = block_table_,
                       .q = query_,
                       .k_cache = k_cache,
                       .v_cache = v_cache,
                       .first_head = 0,
                       .num_heads = heads,
                       .epsilon = epsilon_,
                       .num_rows = options_.rows};
  for_ranks(fmt::format("layer {} qk_norm_rope", layer), [&](uint32_t rank) {
    QkNormRope op = all;
    if (multiplies_tiles()) {
      split(options_.rows, options_.sms, [&](uint32_t first, uint32_t count) {
        op.first_row = first;
        op.num_rows = count;
        add(op, rank, layer);
      });
      return;
    }
    split(heads, options_.sms, [&](uint32_t first, uint32_t count) {
      op.first_head = first;
      op.num_heads = count;
      add(op, rank, layer);
    });
  });
}

void Builder::attention(uint16_t layer, TensorId k_cache, TensorId v_cache) {
  for_ranks(fmt::format("layer {} attention", layer), [&](uint32_t rank) {
    for (uint32_t head = 0; head < heads_.kv_heads; ++head) {
      for (uint32_t split = 0; split < splits_; ++split) {
        add(Attention{.q = query_,
                      .k_cache = k_cache,
                      .v_cache = v_cache,
                      .rows = rows_,
                      .block_table = block_table_,
                      .partial = partial_,
                      .kv_head = head,
                      .split = split,
                      .splits = splits_,
                      .scale = 1.0F / std::sqrt(static_cast<float>(heads_.head_dim))},
            rank, layer);
      }
    }
  });
}

void Builder::attention_merge(uint16_t layer) {
  for_ranks(fmt::format("layer {} attention_merge", layer), [&](uint32_t rank) {
    split(heads_.q_heads, options_.sms, [&](uint32_t first, uint32_t count) {
      add(AttentionMerge{.partial = partial_,
                         .rows = rows_,
                         .output = attention_,
                         .first_head = first,
                         .num_heads = count,
                         .splits = splits_},
          rank, layer);
    });
  });
}

void Builder::planned_attention(uint16_t layer, TensorId k_cache, TensorId v_cache) {
  for_ranks(fmt::format("layer {} planned_attention", layer), [&](uint32_t rank) {
    for (uint32_t record = 0; record < options_.sms; ++record) {
      add(PlannedAttention{.q = query_,
                           .k_cache = k_cache,
                           .v_cache = v_cache,
                           .rows = rows_,
                           .block_table = block_table_,
                           .items = items_,
                           .partial = partial_,
                           .output = attention_,
                           .record = record,
                           .records = options_.sms,
                           .places = kAttentionPlaces,
                           .scale = 1.0F / std::sqrt(static_cast<float>(heads_.head_dim))},
          rank, layer);
    }
  });
}

void Builder::planned_merge(uint16_t layer) {
  for_ranks(fmt::format("layer {} planned_merge", layer), [&](uint32_t rank) {
    for (uint32_t record = 0; record < options_.sms; ++record) {
      add(PlannedMerge{.partial = partial_,
                       .rows = rows_,
                       .items = items_,
                       .output = attention_,
                       .record = record,
                       .records = options_.sms,
                       .places = kAttentionPlaces},
          rank, layer);
    }
  });
}

void Builder::add_to_residual(uint16_t layer, const std::string& name, TensorId input, uint32_t in_cols,
                              NextNorm next) {
  if (options_.ranks > 1) {
    matvec_push(layer, name, input, in_cols);
    reduce_residual(fmt::format("layer {} reduce_residual {}", layer, graph_.tensors[input.index].name),
                    layer, next, 0);
    return;
  }
  const uint32_t units = hidden_ / kUnitRows, rows = computed_rows(layer);
  const uint32_t parts = adds_as_tiles(order_) ? matrix_parts(hidden_, in_cols) : 1;
  const ResidualProduct product{.weights = weight(name),
                                .input = input,
                                .next = next,
                                .in_cols = in_cols,
                                .parts = parts,
                                .layer = layer,
                                .rows = rows,
                                .tile = tile_of(units, rows, parts)};
  if (multiplies_tiles() && parts > 1 && 2 * num_tiles(units, product.tile, rows) <= options_.sms) {
    matvec_parts(product);
    add_parts(product);
  } else {
    matvec_residual(product);
  }
}

void Builder::matvec_residual(const ResidualProduct& product) {
  MatvecResidual op{.weights = product.weights,
                    .input = product.input,
                    .rows = rows_,
                    .norm = product.next.weights,
                    .residual = residual_,
                    .weighted = product.next.weighted,
                    .squares = squares_,
                    .first_unit = 0,
                    .num_units = 0,
                    .in_cols = product.in_cols,
                    .out_cols = hidden_,
                    .logits_only = logits_only(product.layer),
                    .num_rows = options_.rows,
                    .parts = product.parts};
  add_units(
      fmt::format("layer {} matvec_residual {}", product.layer, graph_.tensors[product.input.index].name), op,
      hidden_ / kUnitRows, product.tile, product.rows, product.layer);
}

void Builder::matvec_parts(const ResidualProduct& product) {
  MatvecPart op{.weights = product.weights,
                .input = product.input,
                .rows = rows_,
                .sums = {},
                .first_unit = 0,
                .num_units = 0,
                .in_cols = product.in_cols,
                .out_cols = hidden_,
                .first_col = 0,
                .num_cols = 0,
                .logits_only = logits_only(product.layer),
                .num_rows = options_.rows};
  graph_.begin_stage(
      fmt::format("layer {} matvec_part {}", product.layer, graph_.tensors[product.input.index].name));
  for (uint32_t part = 0; part < product.parts; ++part) {
    const ColumnRange cols = columns_of_part(product.in_cols, part, product.parts);
    op.first_col = cols.begin;
    op.num_cols = cols.count();
    op.sums = part_sums(part);
    add_units_of_rank(op, 0, {0, hidden_ / kUnitRows}, product.tile, product.rows, product.layer);
  }
}

void Builder::add_parts(const ResidualProduct& product) {
  const auto sums = [&](uint32_t part) { return part_sums(part < product.parts ? part : 0); };
  AddParts op{.rows = rows_,
              .norm = product.next.weights,
              .residual = residual_,
              .weighted = product.next.weighted,
              .squares = squares_,
              .part0 = sums(0),
              .part1 = sums(1),
              .part2 = sums(2),
              .part3 = sums(3),
              .num_parts = product.parts,
              .out_cols = hidden_,
              .first_unit = 0,
              .num_units = 0,
              .logits_only = logits_only(product.layer),
              .num_rows = options_.rows};
  graph_.begin_stage(
      fmt::format("layer {} add_parts {}", product.layer, graph_.tensors[product.input.index].name));
  const uint32_t units = hidden_ / kUnitRows, tile = product.tile.units;
  const uint32_t row_groups = (product.rows + kRowsAddedTogether - 1) / kRowsAddedTogether;
  const uint32_t row_ranges = std::max(options_.sms / num_tiles(units, product.tile, 1), 1U);
  // Each instance covers one tile's units, so that it waits only for that tile's parts.
  for (op.first_unit = 0; op.first_unit < units; op.first_unit += tile) {
    op.num_units = std::min(tile, units - op.first_unit);
    split(row_groups, row_ranges, [&](uint32_t first, uint32_t count) {
      op.first_row = first * kRowsAddedTogether;
      op.num_rows = std::min(count * kRowsAddedTogether, product.rows - op.first_row);
      add(op, 0, product.layer);
    });
  }
}

TensorId Builder::part_sums(uint32_t part) {
  while (part_sums_.size() <= part) {
    part_sums_.push_back(activation(fmt::format("{}.{}", llama_tensor::kParts, part_sums_.size()).c_str(),
                                    DType::kF32, options_.rows, hidden_));
  }
  return part_sums_[part];
}

void Builder::matvec_push(uint16_t layer, const std::string& name, TensorId input, uint32_t in_cols) {
  MatvecPush op{.weights = weight(name),
                .input = input,
                .rows = rows_,
                .partial = {exchange_.index},
                .first_unit = 0,
                .num_units = 0,
                .in_cols = in_cols,
                .out_cols = hidden_,
                .rank = 0,
                .ranks = options_.ranks,
                .logits_only = logits_only(layer),
                .num_rows = options_.rows};
  const uint32_t units = hidden_ / kUnitRows, rows = computed_rows(layer);
  for_ranks(fmt::format("layer {} matvec_push {}", layer, graph_.tensors[input.index].name),
            [&](uint32_t rank) {
              op.rank = rank;
              add_units_of_rank(op, rank, {0, units}, tile_of(units, rows), rows, layer);
            });
}

void Builder::reduce_residual(std::string stage, uint16_t layer, NextNorm next, uint32_t begins) {
  ReduceResidual op{.partial = exchange_,
                    .rows = rows_,
                    .norm = next.weights,
                    .residual = residual_,
                    .weighted = {next.weighted.index},
                    .squares = {squares_.index},
                    .first_unit = 0,
                    .num_units = 0,
                    .out_cols = hidden_,
                    .rank = 0,
                    .ranks = options_.ranks,
                    .logits_only = logits_only(layer),
                    .num_rows = options_.rows,
                    .begins = begins};
  const uint32_t units = hidden_ / options_.ranks / kUnitRows, rows = computed_rows(layer);
  const TileShape tile = multiplies_tiles() ? reduction_shape(units, rows, options_.tile_rows, options_.sms)
                                            : whole_tile(kTileUnits);
  for_ranks(std::move(stage), [&](uint32_t rank) {
    op.rank = rank;
    add_units_of_rank(op, rank, {rank * units, units, reduce_units(rows)}, tile, rows, layer);
  });
}

void Builder::gate_up_silu(uint16_t layer, const std::string& prefix, TensorId input) {
  GateUpSilu op{.weighted = input,
                .squares = squares_,
                .gate = weight(prefix + "mlp.gate_proj.weight"),
                .up = weight(prefix + "mlp.up_proj.weight"),
                .rows = rows_,
                .output = mlp_,
                .first_unit = 0,
                .num_units = 0,
                .hidden = hidden_,
                .intermediate = intermediate_,
                .epsilon = epsilon_,
                .logits_only = logits_only(layer),
                .num_rows = options_.rows};
  const uint32_t units = intermediate_ / kUnitRows, rows = computed_rows(layer);
  add_units(fmt::format("layer {} gate_up_silu", layer), op, units, whole_tile(pair_units(units, rows)), rows,
            layer);
}

void Builder::lm_head() {
  LmHead op{.weighted = quantised(kNoTag, head_input_, head_codes_, 1),
            .squares = squares_,
            .weights = weights_.contains(llama_tensor::kLmHead) ? weight(llama_tensor::kLmHead) : embedding_,
            .rows = rows_,
            .logits = logits_,
            .unit_softmax = unit_softmax_,
            .first_unit = 0,
            .num_units = 0,
            .hidden = hidden_,
            .vocab = vocab_,
            .epsilon = epsilon_,
            .num_rows = logit_rows_};
  const uint64_t units = vocabulary_units(vocab_);
  for_ranks("lm_head", [&](uint32_t rank) {
    const PieceRange own = pieces_of_rank(units, rank, options_.ranks);
    op.weights_unit = static_cast<uint32_t>(own.begin);
    add_units_of_rank(op, rank,
                      {static_cast<uint32_t>(own.begin), static_cast<uint32_t>(own.end - own.begin)},
                      whole_tile(kTileUnits), logit_rows_);
  });
}

void Builder::sample() {
  graph_.begin_stage("sample");
  Sample op{.logits = logits_,
            .unit_softmax = unit_softmax_,
            .rows = rows_,
            .slots = slots_,
            .adjustments = adjustments_,
            .masks = masks_,
            .sampled = sampled_,
            .top = top_,
            .saved = saved_,
            .record = 0,
            .records = sample_records(),
            .first_row = 0,
            .num_rows = 0,
            .vocab = vocab_};
  const auto add_rows = [&](uint32_t begin, uint32_t end) {
    op.record = 0;
    split(end - begin, sample_records(), [&](uint32_t first, uint32_t count) {
      op.first_row = begin + first;
      op.num_rows = count;
      graph_.add(op);
      ++op.record;
    });
  };
  // Passes that only draw have the first rows: these are divided among all instances.
  add_rows(0, drawing_rows_);
  add_rows(drawing_rows_, logit_rows_);
}

void Builder::pool() {
  // Fewer columns are not worth a record.
  constexpr uint32_t kPoolCols = 32;
  Pool op{.residual = residual_,
          .squares = squares_,
          .norm = final_norm_,
          .rows = rows_,
          .sampled = sampled_,
          .pooled = pooled_,
          .record = 0,
          .records = std::min(options_.sms, std::max(hidden_ / kPoolCols, 1U)),
          .hidden = hidden_,
          .epsilon = epsilon_};
  graph_.begin_stage("pool");
  for (; op.record < op.records; ++op.record) graph_.add(op);
}

void Builder::advance() {
  graph_.begin_stage("advance");
  graph_.add(Advance{.sampled = sampled_,
                     .host_stop = host_stop_,
                     .rows = rows_,
                     .slots = slots_,
                     .control = control_,
                     .output = output_,
                     .adjustments = adjustments_});
}

void Builder::push_state() {
  graph_.begin_stage("push_state");
  for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
    graph_.add(PushState{.rows = rows_,
                         .control = control_,
                         .peer_rows = {rows_.index + rank},
                         .peer_control = {control_.index + rank}});
  }
}

// True if the LM head is not the embedding's own matrix.
bool has_head(const LlamaConfig& config) {
  if (config.pools) return false;
  return !config.tie_word_embeddings || config.formats.lm_head != DType::kBF16;
}

// Sets the types of the layers' matrices and of the LM head, and where a tied head's values are.
void set_formats(const LlamaConfig& config, std::vector<WeightSpec>& specs) {
  for (WeightSpec& spec : specs) {
    if (spec.kind != WeightKind::kMatrix || spec.name == llama_tensor::kEmbedding) continue;
    const bool is_head = spec.name == llama_tensor::kLmHead;
    spec.dtype = is_head ? config.formats.lm_head : config.formats.layers;
    if (is_head && config.tie_word_embeddings) spec.copy_of = llama_tensor::kEmbedding;
  }
}

}  // namespace

bool LlamaConfig::has_e4m3_inputs() const {
  constexpr int kMultiple = static_cast<int>(e4m3_slab_image::kColsOfSlab);
  return !pools && hidden_size % kMultiple == 0 && intermediate_size % kMultiple == 0 &&
         num_heads * head_dim % kMultiple == 0;
}

std::vector<WeightSpec> llama_weights(const LlamaConfig& config) {
  const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  const int64_t query = int64_t{config.num_heads} * config.head_dim;
  const int64_t key_value = int64_t{config.num_kv_heads} * config.head_dim;
  // With a norm between product and RoPE, another instruction rotates whole heads, in sequential order.
  const RowOrder qk_order = config.qk_norm ? RowOrder::kSequential : RowOrder::kRotaryPairs;
  std::vector<WeightSpec> specs;
  std::string prefix;
  const auto matrix = [&](const char* name, int64_t rows, int64_t cols,
                          RowOrder order = RowOrder::kSequential) {
    specs.push_back(
        {.name = prefix + name, .kind = WeightKind::kMatrix, .rows = rows, .cols = cols, .row_order = order});
  };
  // Sets how ranks share the weight that was added last.
  const auto split = [&](WeightSplit how, int64_t piece) {
    specs.back().split = how;
    specs.back().piece = piece;
  };
  const auto split_rows = [&](int64_t piece) { split(WeightSplit::kRows, piece); };
  const auto split_cols = [&](int64_t piece) { split(WeightSplit::kCols, piece); };
  const auto norm = [&](const char* name, int64_t size) {
    specs.push_back({.name = prefix + name, .kind = WeightKind::kNorm, .rows = 1, .cols = size});
  };
  const auto bias = [&](const char* name, int64_t size) {
    specs.push_back({.name = prefix + name, .kind = WeightKind::kBias, .rows = 1, .cols = size});
  };
  matrix(llama_tensor::kEmbedding, config.vocab_size, hidden);
  split_rows(kUnitRows);
  specs.back().gathered = has_head(config);
  if (config.tie_word_embeddings) specs.back().alias = llama_tensor::kLmHead;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    prefix = layer_prefix(layer);
    norm("input_layernorm.weight", hidden);
    matrix("self_attn.q_proj.weight", query, hidden, qk_order);
    split_rows(config.head_dim);
    matrix("self_attn.k_proj.weight", key_value, hidden, qk_order);
    split_rows(config.head_dim);
    matrix("self_attn.v_proj.weight", key_value, hidden);
    split_rows(config.head_dim);
    if (config.qkv_bias) {
      bias("self_attn.q_proj.bias", query);
      split_cols(config.head_dim);
      bias("self_attn.k_proj.bias", key_value);
      split_cols(config.head_dim);
      bias("self_attn.v_proj.bias", key_value);
      split_cols(config.head_dim);
    }
    if (config.qk_norm) {
      norm("self_attn.q_norm.weight", config.head_dim);
      norm("self_attn.k_norm.weight", config.head_dim);
    }
    matrix("self_attn.o_proj.weight", hidden, query);
    split_cols(config.head_dim);
    norm("post_attention_layernorm.weight", hidden);
    matrix("mlp.gate_proj.weight", intermediate, hidden);
    split_rows(kTileDim);
    matrix("mlp.up_proj.weight", intermediate, hidden);
    split_rows(kTileDim);
    matrix("mlp.down_proj.weight", hidden, intermediate);
    split_cols(kTileDim);
  }
  prefix.clear();
  norm(llama_tensor::kFinalNorm, hidden);
  if (has_head(config)) {
    matrix(llama_tensor::kLmHead, config.vocab_size, hidden);
    split_rows(kUnitRows);
  }
  set_formats(config, specs);
  return specs;
}

Graph build_llama_graph(const LlamaConfig& config, const GraphOptions& options) {
  if (options.sms < 1 || options.sms > kMaxSms) {
    throw Error(ErrorKind::kUsage, fmt::format("sms: {}; limit: 1 to {}", options.sms, kMaxSms));
  }
  if (options.context < 1 || options.context > static_cast<uint32_t>(config.max_position)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("context: {} tokens; limit: 1 to {}", options.context, config.max_position));
  }
  if (options.rows < 1 || options.rows > kLargestRows) {
    throw Error(ErrorKind::kUsage, fmt::format("rows: {}; limit: 1 to {}", options.rows, kLargestRows));
  }
  if (config.pools && options.ranks > 1)
    throw Error(ErrorKind::kUsage, fmt::format("embeddings: supported on 1 GPU; ranks: {}", options.ranks));
  check_ranks(config, options.ranks);
  if (!config.formats.all_bf16() && (options.ranks > 1 || options.tile_order)) {
    throw Error(ErrorKind::kUsage,
                "weights of 8 or 4 bits: supported on 1 GPU, and not in tile order with 1 row");
  }
  if (config.formats.e4m3_inputs && !config.has_e4m3_inputs()) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("activations: 8bit: hidden_size {}, intermediate_size {}, {} heads of {}; expected "
                    "multiples of {} columns",
                    config.hidden_size, config.intermediate_size, config.num_heads, config.head_dim,
                    e4m3_slab_image::kColsOfSlab));
  }
  if (options.tile_order &&
      (options.rows != 1 || options.tile_rows > 0 || options.ranks > 1 || config.qk_norm)) {
    throw Error(ErrorKind::kUsage,
                "tile order: supported with 1 row, without tiles, on 1 device, without norms of the heads of "
                "Q and K");
  }
  const int multiple = static_cast<int>(kSquareColsOfTiles * options.ranks);
  if ((options.tile_rows > 0 || options.tile_order) &&
      (config.hidden_size % multiple != 0 || config.intermediate_size % multiple != 0)) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("hidden_size {}, intermediate_size {}: passes of more than {} rows need multiples "
                    "of {}",
                    config.hidden_size, config.intermediate_size, kDefaultRows, multiple));
  }
  if (options.sequences < 1 || options.sequences > kLargestSequences) {
    throw Error(ErrorKind::kUsage,
                fmt::format("sequences: {}; limit: 1 to {}", options.sequences, kLargestSequences));
  }
  return Builder(config, options).build();
}

}  // namespace serval
