#include "tests/scheduler/graphs.h"

#include <algorithm>
#include <random>

#include "tests/llama/configs.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/control.h"
#include "vm/state/limits.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval::testing {
namespace {

constexpr uint32_t kHidden = 64, kIntermediate = 128, kHeadDim = 64, kQHeads = 4, kKvHeads = 2, kVocab = 41;
constexpr uint32_t kRows[] = {16, 1, 48, 256}, kSequences = 16;
constexpr uint32_t kContext = 300, kKvBlocks = 7, kSplits = 2;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed)
      : max_rows_(kRows[seed % std::size(kRows)]),
        logit_rows_(logit_rows({.rows = max_rows_, .sequences = kSequences})),
        random_(seed) {
    add_tensors();
  }
  Graph build();

 private:
  void add_tensors();
  TensorId tensor(const char* name, uint64_t rows, uint64_t cols, DType dtype, TensorKind kind);
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  void stage();
  template <class Op>
  void add(const Op& op) {
    graph_.add(op, static_cast<uint16_t>(graph_.nodes.size()));
  }
  // Calls fn(first, count) for a few disjoint ranges of [0, units); they need not cover it.
  template <class Fn>
  void ranges(uint32_t units, Fn&& fn);
  template <class Op>
  void by_units(Op op, uint32_t units);
  QkvRope qkv_rope(uint32_t layer) const;
  MatvecResidual matvec_residual(TensorId weights, TensorId input, uint32_t in_cols) const;
  void attention(uint32_t layer);

  const uint32_t max_rows_, logit_rows_;
  std::mt19937 random_;
  Graph graph_;
  TensorId rows_, slots_, sampled_, control_, output_, host_stop_, block_table_, adjustments_, masks_, top_,
      saved_;
  TensorId residual_, weighted_, squares_, query_, partial_, attention_, mlp_, logits_, unit_softmax_, rope_,
      table_, norm_;
  TensorId wq_, wk_, wv_, wo_, gate_, up_, down_;
  TensorId k_[2], v_[2];
};

TensorId RandomGraph::tensor(const char* name, uint64_t rows, uint64_t cols, DType dtype, TensorKind kind) {
  return graph_.add_tensor({.name = name,
                            .rows = rows,
                            .cols = cols,
                            .dtype = dtype,
                            .kind = kind,
                            .image = image_of(kind, rows)});
}

void RandomGraph::add_tensors() {
  const auto state = [&](const char* name, uint64_t rows, uint64_t bytes) {
    return tensor(name, rows, bytes, DType::kBytes, TensorKind::kState);
  };
  const auto activation = [&](const char* name, uint64_t cols, DType dtype) {
    return tensor(name, max_rows_, cols, dtype, TensorKind::kActivation);
  };
  const auto product_input = [&](const char* name, uint64_t cols) {
    const TensorId id = activation(name, cols, DType::kBF16);
    graph_.tensors[id.index].image = Image::kActivation;
    return id;
  };
  const auto weight = [&](const char* name, uint64_t rows, uint64_t cols) {
    return tensor(name, rows, cols, DType::kBF16, TensorKind::kWeight);
  };
  const auto cache = [&](const char* name) {
    return tensor(name, uint64_t{kKvHeads} * kHeadDim, uint64_t{kKvBlocks} * kKvBlockTokens, DType::kBF16,
                  TensorKind::kKvCache);
  };
  rows_ = state(state_tensor::kRows, max_rows_, sizeof(PassRow));
  slots_ = state(state_tensor::kSlots, kSequences, sizeof(SequenceSlot));
  sampled_ = state(state_tensor::kSampled, max_rows_, sizeof(SampledToken));
  adjustments_ = state(state_tensor::kAdjustments, kSequences, adjustment_bytes(kContext));
  masks_ = tensor(state_tensor::kMasks, kSequences, mask_pitch(kVocab), DType::kI32, TensorKind::kState);
  top_ = state(state_tensor::kTop, logit_rows_, sizeof(TopTokens));
  control_ = state(state_tensor::kControl, 1, sizeof(PassControl));
  output_ = state(state_tensor::kOutput, launch_passes(max_rows_), max_rows_ * sizeof(OutputToken));
  host_stop_ = state(state_tensor::kHostStop, 1, sizeof(uint32_t));
  block_table_ = tensor(state_tensor::kBlockTable, kSequences, blocks_for_tokens(kContext), DType::kI32,
                        TensorKind::kState);
  residual_ = activation("residual", kHidden, DType::kF32);
  weighted_ = product_input("weighted", kHidden);
  squares_ = activation("squares", kHidden / kUnitRows, DType::kF32);
  query_ = activation("query", kQHeads * kHeadDim, DType::kBF16);
  attention_ = product_input("attention", kQHeads * kHeadDim);
  mlp_ = product_input("mlp", kIntermediate);
  logits_ = tensor("logits", logit_rows_, kVocab, DType::kF32, TensorKind::kActivation);
  unit_softmax_ = tensor("unit_softmax", logit_rows_, vocabulary_units(kVocab) * kUnitSoftmaxCols,
                         DType::kF32, TensorKind::kActivation);
  saved_ = tensor("saved", logit_rows_, saved_cols(kVocab, kContext), DType::kF32, TensorKind::kActivation);
  const PartialLayout partial{kSplits, kQHeads / kKvHeads, kHeadDim, whole_row_tiles(max_rows_)};
  partial_ = tensor("partial", partial.rows_of_all(kKvHeads), partial.cols(kContext), DType::kF32,
                    TensorKind::kActivation);
  rope_ = tensor("rope", kContext, kHeadDim, DType::kF32, TensorKind::kConstant);
  table_ = weight("table", kVocab, kHidden);
  norm_ = weight("norm", 1, kHidden);
  wq_ = weight("wq", kQHeads * kHeadDim, kHidden);
  wk_ = weight("wk", kKvHeads * kHeadDim, kHidden);
  wv_ = weight("wv", kKvHeads * kHeadDim, kHidden);
  wo_ = weight("wo", kHidden, kQHeads * kHeadDim);
  gate_ = weight("gate", kIntermediate, kHidden);
  up_ = weight("up", kIntermediate, kHidden);
  down_ = weight("down", kHidden, kIntermediate);
  k_[0] = cache("k0");
  v_[0] = cache("v0");
  k_[1] = cache("k1");
  v_[1] = cache("v1");
}

template <class Fn>
void RandomGraph::ranges(uint32_t units, Fn&& fn) {
  std::vector<uint32_t> cuts = {below(2) == 0 ? 0 : below(units), below(2) == 0 ? units : 1 + below(units)};
  for (uint32_t n = below(3); n > 0; --n) cuts.push_back(below(units));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.size() == 1) cuts = {0, units};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) fn(cuts[i], cuts[i + 1] - cuts[i]);
}

template <class Op>
void RandomGraph::by_units(Op op, uint32_t units) {
  const uint32_t rows = op.num_rows;
  ranges(units, [&](uint32_t first, uint32_t count) {
    op.first_unit = first;
    op.num_units = count;
    // All rows in one instance, or half of them in each of two.
    const uint32_t half = below(2) == 0 ? rows : (rows + 1) / 2;
    for (uint32_t row = 0; row < rows; row += half) {
      op.first_row = row;
      op.num_rows = std::min(half, rows - row);
      add(op);
    }
  });
}

QkvRope RandomGraph::qkv_rope(uint32_t layer) const {
  return {.weighted = weighted_,
          .squares = squares_,
          .wq = wq_,
          .wk = wk_,
          .wv = wv_,
          .rope = rope_,
          .rows = rows_,
          .block_table = block_table_,
          .q = query_,
          .k_cache = k_[layer],
          .v_cache = v_[layer],
          .first_unit = 0,
          .num_units = 0,
          .hidden = kHidden,
          .epsilon = 1e-5F,
          .num_rows = max_rows_};
}

MatvecResidual RandomGraph::matvec_residual(TensorId weights, TensorId input, uint32_t in_cols) const {
  return {.weights = weights,
          .input = input,
          .rows = rows_,
          .norm = norm_,
          .residual = residual_,
          .weighted = weighted_,
          .squares = squares_,
          .first_unit = 0,
          .num_units = 0,
          .in_cols = in_cols,
          .out_cols = kHidden,
          .num_rows = max_rows_};
}

void RandomGraph::attention(uint32_t layer) {
  ranges(kKvHeads * kSplits, [&](uint32_t first, uint32_t) {
    add(Attention{.q = query_,
                  .k_cache = k_[layer],
                  .v_cache = v_[layer],
                  .rows = rows_,
                  .block_table = block_table_,
                  .partial = partial_,
                  .kv_head = first / kSplits,
                  .split = first % kSplits,
                  .splits = kSplits,
                  .scale = 0.125F});
  });
}

void RandomGraph::stage() {
  graph_.begin_stage("stage " + std::to_string(graph_.stages.size()));
  switch (below(9)) {
    case 0:
      return by_units(
          Embed{table_, rows_, norm_, residual_, weighted_, squares_, 0, 0, kHidden, kVocab, 0, max_rows_},
          kHidden / kUnitRows);
    case 1:
      return by_units(qkv_rope(below(2)), (kQHeads + 2 * kKvHeads) * kHeadDim / kUnitRows);
    case 2:
      return attention(below(2));
    case 3:
      ranges(kQHeads, [&](uint32_t first, uint32_t count) {
        add(AttentionMerge{partial_, rows_, attention_, first, count, kSplits});
      });
      return;
    case 4:
      return by_units(matvec_residual(wo_, attention_, kQHeads * kHeadDim), kHidden / kUnitRows);
    case 5:
      return by_units(GateUpSilu{weighted_, squares_, gate_, up_, rows_, mlp_, 0, 0, kHidden, kIntermediate,
                                 1e-5F, 0, 0, max_rows_},
                      kIntermediate / kUnitRows);
    case 6:
      return by_units(matvec_residual(down_, mlp_, kIntermediate), kHidden / kUnitRows);
    case 7:
      return by_units(LmHead{weighted_, squares_, table_, rows_, logits_, unit_softmax_, 0, 0, kHidden,
                             kVocab, 1e-5F, 0, logit_rows_},
                      static_cast<uint32_t>(vocabulary_units(kVocab)));
    default:
      ranges(logit_rows_, [&](uint32_t first, uint32_t count) {
        add(Sample{logits_, unit_softmax_, rows_, slots_, adjustments_, masks_, sampled_, top_, saved_, first,
                   logit_rows_, first, count, kVocab});
      });
  }
}

Graph RandomGraph::build() {
  graph_.heads = {kHeadDim, kQHeads, kKvHeads};
  graph_.limits = {kVocab, kContext, kKvBlocks, max_rows_, kSequences};
  for (uint32_t n = 1 + below(12); n > 0; --n) stage();
  graph_.begin_stage("advance");
  add(Advance{sampled_, host_stop_, rows_, slots_, control_, output_, adjustments_});
  return std::move(graph_);
}

}  // namespace

LlamaConfig shortened_preset(const char* name, int layers) {
  LlamaConfig config = preset_config(name);
  config.num_layers = layers;
  return config;
}

Graph random_graph(uint32_t seed) {
  return RandomGraph(seed).build();
}

Machine machine_of(uint32_t sms) {
  Machine machine = h200_machine();
  machine.sms = sms;
  return machine;
}

std::vector<Compilation> compilations_for(uint32_t sms) {
  std::vector<Compilation> out = {{Policy::kRoundRobin, QueueKind::kGlobal, sms}};
  for (const Policy policy : kPolicies) out.push_back({policy, QueueKind::kPerSm, sms});
  return out;
}

Program compile_as(const Graph& graph, const Compilation& how) {
  return compile(graph, machine_of(how.sms),
                 {.policy = how.policy, .queue_kind = how.queue_kind, .context = {}});
}

}  // namespace serval::testing
