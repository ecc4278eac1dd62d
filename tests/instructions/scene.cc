#include "tests/instructions/scene.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include "gtest/gtest.h"

#include "instructions/common/matvec.h"
#include "instructions/common/unit_softmax.h"
#include "instructions/kernels.h"
#include "instructions/planned_attention/plan.h"
#include "models/checkpoint/quantise_rows.h"
#include "vm/base/bf16.h"
#include "vm/base/int4.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/int4_rows.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/row_bytes.h"
#include "vm/layout/row_tiles.h"

namespace serval::testing {
namespace {

// Fills a tensor of 16-bit numbers.
void fill_16_bits(Random& random, double scale, Bench& bench, TensorId id) {
  const Tensor& tensor = bench.tensor(id);
  auto* out = bench.data<uint16_t>(id);
  for (uint64_t i = 0; i < tensor.rows * tensor.cols; ++i)
    out[i] = to_16_bits(tensor.dtype, static_cast<float>(random.real(-scale, scale)));
}

// Fills weights in codes. Of 4-bit integers, every other group has a minimum instead of a zero point.
void fill_codes(Random& random, double scale, Bench& bench, TensorId id) {
  const Tensor& tensor = bench.tensor(id);
  std::vector<uint16_t> bf16(tensor.rows * tensor.cols);
  for (uint16_t& bits : bf16) bits = float_to_bf16(static_cast<float>(random.real(-scale, scale)));
  quantise_rows(tensor.dtype, bf16.data(), static_cast<int64_t>(tensor.rows),
                static_cast<int64_t>(tensor.cols), bench.data<uint8_t>(id));
  if (!is_int4(tensor.dtype)) return;
  const uint64_t groups = tensor.cols / group_of(tensor.dtype);
  for (uint64_t r = 0; r < tensor.rows; ++r) {
    uint8_t* row = bench.data<uint8_t>(id) + r * row_bytes_of(tensor.dtype, tensor.cols);
    for (uint64_t n = r % 2; n < groups; n += 2) {
      const uint16_t of_group = int4::scale_of(int4_rows::word_of(row, tensor.cols, n));
      constexpr double kCodes = int4::kCodes;
      const double least = fp16_to_float(of_group) * random.real(-kCodes, 0);
      int4_rows::set_word(row, tensor.cols, n,
                          int4::word_with_minimum(of_group, float_to_fp16(static_cast<float>(least))));
    }
  }
}

// Rounds a tensor of fp16 to e4m3 with a scale for each row.
void quantise(Bench& bench, TensorId from, TensorId to) {
  const Tensor& tensor = bench.tensor(from);
  std::vector<uint16_t> bf16(tensor.rows * tensor.cols);
  for (size_t i = 0; i < bf16.size(); ++i)
    bf16[i] = float_to_bf16(fp16_to_float(bench.data<const uint16_t>(from)[i]));
  quantise_rows(DType::kE4M3, bf16.data(), static_cast<int64_t>(tensor.rows),
                static_cast<int64_t>(tensor.cols), bench.data<uint8_t>(to));
}

void fill_f32(Random& random, double scale, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(random.real(-scale, scale));
}

// Units of a tile of gate and up, the widest that a program may have.
uint32_t pair_units(const Shape& shape) {
  return takes_wide_tiles(shape.rows, shape.head_dim, codes_of({shape.weights})) ? kUnitsOfWidePairTile
                                                                                 : kUnitsOfPairTile;
}

}  // namespace

TensorId Bench::add(std::string name, DType dtype, TensorKind kind, uint64_t rows, uint64_t cols,
                    uint32_t head_dim) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.dtype = dtype;
  tensor.kind = kind;
  tensor.head_dim = head_dim;
  tensor.image = image_of(kind, rows);
  memory.emplace_back(tensor.bytes());
  program.tensors.push_back(std::move(tensor));
  return {static_cast<uint32_t>(memory.size() - 1)};
}

float Bench::number(TensorId id, uint64_t element) const {
  return tensor(id).dtype == DType::kF32 ? data<const float>(id)[element]
                                         : bf16_to_float(data<const uint16_t>(id)[element]);
}

uint64_t Bench::element(TensorId id, uint64_t row, uint64_t col) const {
  const Tensor& t = tensor(id);
  if (t.kind != TensorKind::kKvCache) return row * row_bytes_of(t.dtype, t.cols) / size_of(t.dtype) + col;
  const uint64_t head = row / t.head_dim, heads = t.rows / t.head_dim;
  const uint64_t block = col / kKvBlockTokens, token = col % kKvBlockTokens;
  return ((block * heads + head) * kKvBlockTokens + token) * t.head_dim + row % t.head_dim;
}

void Bench::poison(TensorId id) {
  std::fill(memory[id.index].begin(), memory[id.index].end(), kPoison);
}

void Bench::run(const Instruction& instruction, const std::function<void()>& after_load,
                const std::function<void()>& after_compute) {
  const std::string refused = check_instruction(program, instruction);
  ASSERT_EQ(refused, "");
  HostMemory bound(program);
  for (uint32_t i = 0; i < memory.size(); ++i) bound.bind({i}, memory[i].data());
  const HostHandler& handler = *host_isa().handlers[instruction.opcode];
  const auto local = handler.make_local();
  handler.load(instruction, bound, *local);
  if (after_load) after_load();
  handler.compute(instruction, bound, *local);
  if (after_compute) after_compute();
  handler.store(instruction, bound, *local);
}

void Bench::run(const std::vector<Instruction>& instructions) {
  HostMemory bound(program);
  for (uint32_t i = 0; i < memory.size(); ++i) bound.bind({i}, memory[i].data());
  std::map<uint16_t, std::unique_ptr<HostLocal>> locals;  // reused, as by an interpreter's thread
  for (const Instruction& i : instructions) {
    const std::string refused = check_instruction(program, i);
    ASSERT_EQ(refused, "");
    const HostHandler& handler = *host_isa().handlers[i.opcode];
    std::unique_ptr<HostLocal>& local = locals[i.opcode];
    if (!local) local = handler.make_local();
    handler.load(i, bound, *local);
    handler.compute(i, bound, *local);
    handler.store(i, bound, *local);
  }
}

std::string Shape::text() const {
  std::string out;
  const auto add = [&](const char* name, uint32_t value) {
    out += std::string(out.empty() ? "" : ", ") + name + " " + std::to_string(value);
  };
  add("hidden", hidden);
  add("intermediate", intermediate);
  add("head_dim", head_dim);
  add("q_heads", q_heads);
  add("kv_heads", kv_heads);
  add("vocab", vocab);
  add("max_context", max_context);
  add("splits", splits);
  add("rows", rows);
  add("sequences", sequences);
  add("tile_rows", tile_rows);
  add("tile_order", tile_order ? 1 : 0);
  add("records", records);
  if (has_codes(weights)) out += std::string(", weights ") + name_of(weights);
  return out;
}

Shape random_shape(Random& random, const ShapeLimits& limits) {
  Shape s;
  s.hidden = random.between(1, limits.max_hidden / kTileDim) * kTileDim;
  s.intermediate = random.between(1, limits.max_intermediate / kTileDim) * kTileDim;
  s.head_dim = random.chance(0.5) ? 64 : 128;
  s.kv_heads = random.between(1, limits.max_kv_heads);
  s.q_heads = s.kv_heads * random.between(1, 8);
  s.vocab = random.between(1, 300) * 2 + 1;
  s.max_context = random.between(limits.max_context / 2, limits.max_context);
  s.splits = random.pick<uint32_t>({1, 2, 7, 16});
  s.epsilon = random.pick<float>({1e-5F, 1e-6F, 1e-3F});
  if (!limits.rows.empty()) {
    s.rows = random.pick(limits.rows);
    s.sequences = random.pick<uint32_t>({3, 16, 64});
    s.rows_of_sample = s.rows;
    if (limits.tiles && random.chance(0.5)) {
      s.tile_rows = random.pick<uint32_t>({8, 16, 64});
      s.hidden = (s.hidden + kSquareColsOfTiles - 1) / kSquareColsOfTiles * kSquareColsOfTiles;
      s.intermediate = (s.intermediate + kSquareColsOfTiles - 1) / kSquareColsOfTiles * kSquareColsOfTiles;
    }
    s.records = random.pick<uint32_t>({1, 2, 5});
  }
  return s;
}

std::vector<Instruction> whole(const Stage& stage) {
  std::vector<Instruction> out;
  for (uint32_t first = 0; first < stage.units; first += stage.most_per_part) {
    out.push_back(stage.make(first, std::min(stage.most_per_part, stage.units - first)));
  }
  return out;
}

std::vector<Instruction> split(const Stage& stage, Random& random) {
  std::vector<Instruction> out;
  const uint32_t longest = random.between(1, stage.most_per_part);
  for (uint32_t first = 0; first < stage.units;) {
    const uint32_t count = std::min(random.between(1, longest), stage.units - first);
    out.push_back(stage.make(first, count));
    first += count;
  }
  random.shuffle(out);
  return out;
}

Scene::Scene(const Shape& s, Random& random) : shape(s) {
  // Half of what all sequences need at full length, and a block for each; new_pass keeps within it.
  // Full contexts for few sequences; half of them for many; and a block for each sequence. new_pass() keeps
  // within it.
  kv_blocks =
      s.sequences * blocks_for_tokens(s.max_context) / (s.sequences > kDefaultRows ? 2 : 1) + s.sequences;
  bench.program.machine.sms = s.records;
  bench.program.limits = {s.vocab, s.max_context, kv_blocks, s.rows, s.sequences, s.hidden};
  bench.program.order = s.order();
  bench.program.heads = s.heads();
  const uint64_t q_rows = uint64_t{s.q_heads} * s.head_dim, kv_rows = uint64_t{s.kv_heads} * s.head_dim;
  const auto weight = [&](const char* name, uint64_t rows, uint64_t cols) {
    return bench.add(name, DType::kBF16, TensorKind::kWeight, rows, cols);
  };
  const auto product_weight = [&](const char* name, uint64_t rows, uint64_t cols) {
    return bench.add(name, s.weights, TensorKind::kWeight, rows, cols);
  };
  const auto activation = [&](const char* name, DType dtype, uint64_t cols) {
    return bench.add(name, dtype, TensorKind::kActivation, s.rows, cols);
  };
  const auto image = [&](const char* name, DType dtype, uint64_t cols) {
    const TensorId id = activation(name, dtype, cols);
    bench.program.tensors[id.index].image = product_image(s.order());
    return id;
  };
  const auto state = [&](const char* name, uint64_t rows, uint64_t cols) {
    return bench.add(name, DType::kBytes, TensorKind::kState, rows, cols);
  };
  t.table = weight("table", s.vocab, s.hidden);
  t.norm = weight("norm", 1, s.hidden);
  t.wq = product_weight("wq", q_rows, s.hidden);
  t.wk = product_weight("wk", kv_rows, s.hidden);
  t.wv = product_weight("wv", kv_rows, s.hidden);
  t.plain_wq = product_weight("plain_wq", q_rows, s.hidden);
  t.plain_wk = product_weight("plain_wk", kv_rows, s.hidden);
  t.plain_wv = product_weight("plain_wv", kv_rows, s.hidden);
  t.q_norm = weight("q_norm", 1, s.head_dim);
  t.k_norm = weight("k_norm", 1, s.head_dim);
  t.rope = bench.add("rope", DType::kF32, TensorKind::kConstant, s.max_context, s.head_dim);
  t.wo = product_weight("wo", s.hidden, q_rows);
  t.gate = product_weight("gate", s.intermediate, s.hidden);
  t.up = product_weight("up", s.intermediate, s.hidden);
  t.head = product_weight("head", s.vocab, s.hidden);
  t.residual = activation("residual", DType::kF32, s.hidden);
  t.weighted = image("weighted", input_of_weights(s.weights), s.hidden);
  t.squares = activation("squares", DType::kF32, s.hidden / square_cols(s.order()));
  t.q = activation("q", DType::kBF16, q_rows);
  t.projected = activation("projected", DType::kF32, q_rows + 2 * kv_rows);
  for (uint32_t p = 0; p < kMaxColumnParts; ++p)
    t.projected_sums[p] = activation(("projected_sums" + std::to_string(p + 1)).c_str(), DType::kF32,
                                     (p + 1) * (q_rows + 2 * kv_rows));
  t.exchange = activation("exchange", partial_sum_type(s.order()), s.hidden);
  t.attended = image("attended", input_of_weights(s.weights), q_rows);
  t.part_sums = activation("part_sums", DType::kF32, s.hidden);
  for (uint32_t p = 0; p < kMaxColumnParts; ++p)
    t.parts[p] = activation(("part" + std::to_string(p)).c_str(), DType::kF32, s.hidden);
  t.product = image("product", input_of_weights(s.weights), s.intermediate);
  constexpr uint64_t kCols = e4m3_slab_image::kColsOfSlab;
  const uint64_t quantised_cols = (s.hidden + kCols - 1) / kCols * kCols;
  t.fp16 = image("fp16", DType::kF16, quantised_cols);
  t.codes = image("codes", DType::kE4M3, quantised_cols);
  t.weighted_codes = s.e4m3_inputs ? image("weighted_codes", DType::kE4M3, s.hidden) : t.weighted;
  t.attended_codes = s.e4m3_inputs ? image("attended_codes", DType::kE4M3, q_rows) : t.attended;
  t.logits = bench.add("logits", DType::kF32, TensorKind::kActivation, s.logit_rows(), s.vocab);
  t.unit_softmax = bench.add("unit_softmax", DType::kF32, TensorKind::kActivation, s.logit_rows(),
                             vocabulary_units(s.vocab) * kUnitSoftmaxCols);
  t.k_cache = bench.add("k_cache", DType::kBF16, TensorKind::kKvCache, kv_rows,
                        uint64_t{kv_blocks} * kKvBlockTokens, s.head_dim);
  t.v_cache = bench.add("v_cache", DType::kBF16, TensorKind::kKvCache, kv_rows,
                        uint64_t{kv_blocks} * kKvBlockTokens, s.head_dim);
  t.rows = state(state_tensor::kRows, s.rows, sizeof(PassRow));
  t.slots = state(state_tensor::kSlots, s.sequences, sizeof(SequenceSlot));
  t.sampled = state(state_tensor::kSampled, s.rows, sizeof(SampledToken));
  t.adjustments = state(state_tensor::kAdjustments, s.sequences, adjustment_bytes(s.max_context));
  t.masks =
      bench.add(state_tensor::kMasks, DType::kI32, TensorKind::kState, s.sequences, mask_pitch(s.vocab));
  t.top = state(state_tensor::kTop, s.logit_rows(), sizeof(TopTokens));
  t.saved = bench.add("saved", DType::kF32, TensorKind::kActivation, s.logit_rows(),
                      saved_cols(s.vocab, s.max_context));
  t.control = state(state_tensor::kControl, 1, sizeof(PassControl));
  t.peer_rows = state(state_tensor::kRows, s.rows, sizeof(PassRow));
  t.peer_control = state(state_tensor::kControl, 1, sizeof(PassControl));
  t.output = state(state_tensor::kOutput, launch_passes(s.rows), s.rows * sizeof(OutputToken));
  t.pooled = bench.add(state_tensor::kPooled, DType::kF32, TensorKind::kState, s.sequences, s.hidden);
  t.host_stop = state(state_tensor::kHostStop, 1, sizeof(uint32_t));
  t.block_table = bench.add(state_tensor::kBlockTable, DType::kI32, TensorKind::kState, s.sequences,
                            blocks_for_tokens(s.max_context));
  t.items = state(state_tensor::kAttention, 1, attention_list_bytes(s.rows));
  t.places = bench.add("places", DType::kF32, TensorKind::kActivation, s.places,
                       PlaceLayout{s.q_heads / s.kv_heads, s.head_dim}.cols());
  add_partial(s.splits);
  fill_weights(random);
}

TensorId Scene::add_partial(uint32_t splits) {
  const PartialLayout layout{splits, shape.q_heads / shape.kv_heads, shape.head_dim,
                             whole_row_tiles(shape.rows)};
  if (!partials_.contains(splits)) {
    partials_[splits] = bench.add("partial" + std::to_string(splits), DType::kF32, TensorKind::kActivation,
                                  layout.rows_of_all(shape.kv_heads), layout.cols(shape.max_context));
  }
  return partials_[splits];
}

void fill_unit_softmax(Bench& bench, TensorId logits, TensorId unit_softmax) {
  const size_t rows = bench.tensor(logits).rows, vocab = bench.tensor(logits).cols;
  const float* row = bench.data<const float>(logits);
  auto* to = bench.data<UnitSoftmax>(unit_softmax);
  for (size_t r = 0; r < rows; ++r, row += vocab) {
    for (size_t first = 0; first < vocab; first += kUnitRows) {
      *to++ = serval::unit_softmax({row + first, std::min<size_t>(kUnitRows, vocab - first)});
    }
  }
}

void Scene::fill_weights(Random& random) {
  for (const TensorId id : {t.table, t.norm, t.wq, t.wk, t.wv, t.wo, t.gate, t.up, t.head, t.plain_wq,
                            t.plain_wk, t.plain_wv, t.q_norm, t.k_norm}) {
    const Tensor& w = bench.tensor(id);
    const double scale = w.rows == 1 ? 2 : 2 / std::sqrt(static_cast<double>(w.cols));
    if (has_codes(w.dtype))
      fill_codes(random, scale, bench, id);
    else
      fill_16_bits(random, scale, bench, id);
  }
  float* rope = bench.data<float>(t.rope);
  const uint32_t pairs = shape.head_dim / 2;
  for (uint64_t position = 0; position < shape.max_context; ++position) {
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      const double angle = random.real(-std::numbers::pi, std::numbers::pi);
      rope[position * shape.head_dim + pair] = static_cast<float>(std::cos(angle));
      rope[position * shape.head_dim + pairs + pair] = static_cast<float>(std::sin(angle));
    }
  }
}

void Scene::new_pass(Random& random) {
  const std::vector<uint32_t> edges = {0, 63, 64, 255, 256, 257};
  const uint32_t wanted = random.chance(0.3) ? shape.rows : random.between(1, shape.rows);
  const uint32_t longest = std::min(std::max(6U, shape.rows / 4), shape.max_context);
  std::vector<uint32_t> free_slots;
  for (uint32_t s = 0; s < shape.sequences; ++s) free_slots.push_back(s);
  random.shuffle(free_slots);
  std::vector<PassRow> active;
  uint32_t blocks = 0;
  while (active.size() < wanted && !free_slots.empty()) {
    // A sequence that decodes one token, or a chunk of a prompt.
    const uint32_t chunk = random.chance(0.7) ? 1 : random.between(2, longest);
    uint32_t position = random.chance(0.5) ? random.pick(edges) : random.below(shape.max_context);
    position = std::min(position, shape.max_context - chunk);
    if (blocks + blocks_for_tokens(position + chunk) + shape.sequences > kv_blocks) position = 0;
    blocks += blocks_for_tokens(position + chunk);
    for (uint32_t i = 0; i < chunk && active.size() < wanted; ++i) {
      PassRow row;
      row.slot = free_slots.back();
      row.position = position + i;
      row.wants_logits = i + 1 == chunk && random.chance(0.8) ? 1 : 0;
      active.push_back(row);
    }
    free_slots.pop_back();
  }
  place_rows(random, active);
}

void Scene::new_pass(Random& random, const std::vector<uint32_t>& positions) {
  std::vector<PassRow> active;
  for (const uint32_t position : positions) {
    PassRow row;
    row.slot = (5 * static_cast<uint32_t>(active.size()) + 3) % shape.sequences;
    row.position = position;
    row.wants_logits = 1;
    active.push_back(row);
  }
  place_rows(random, active);
}

void Scene::arrange_rows(Random& random) {
  if (random.chance(0.5)) {
    std::stable_partition(rows(), rows() + shape.rows, row_is_active);
    for (uint32_t r = shape.logit_rows(); r < shape.rows; ++r) rows()[r].wants_logits = 0;
  }
  for (const uint32_t r : active_rows()) {
    if (random.chance(0.2)) rows()[r].wants_logits = 0;
  }
}

void Scene::place_rows(Random& random, const std::vector<PassRow>& active) {
  logits_only = random.below(2);
  begins = random.below(2);
  choose_parts(random);
  std::vector<uint32_t> index;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    index.push_back(r);
    PassRow& garbage = rows()[r];  // the content of inactive rows must not matter
    garbage = {0, random.below(2), 0xFFFFFFFF, -7, 0xFFFFFFFF, {}};
  }
  random.shuffle(index);
  for (size_t i = 0; i < active.size(); ++i) {
    PassRow& row = rows()[index[i]];
    row = active[i];
    row.active = 1;
    if (index[i] >= shape.logit_rows()) row.wants_logits = 0;
    row.token = static_cast<int32_t>(random.below(shape.vocab));
    row.adds = row.wants_logits != 0 && row.position % 2 != 0 ? 1 : 0;
  }
  fill_block_table(random);
  fill_slots(random);
  fill_activations(random);
  plan(shape.records);
}

void Scene::choose_parts(Random& random) {
  const uint32_t most = std::min(page_image::panels(shape.q_heads * shape.head_dim), kMaxColumnParts);
  product_parts = shape.tile_rows > 0 || shape.tile_order ? random.between(1, most) : 1;
  sums_parts = random.between(1, most);
  sums_part = random.below(sums_parts);
  added_parts = random.between(2, kMaxColumnParts);
  projected_parts = random.between(1, std::min(page_image::panels(shape.hidden), kMaxColumnParts));
  projected_part = random.below(projected_parts);
}

void Scene::plan(uint32_t records) {
  shape.records = bench.program.machine.sms = records;
  bench.poison(t.items);
  plan_attention(
      {.group_heads = shape.q_heads / shape.kv_heads,
       .kv_heads = shape.kv_heads,
       .records = records,
       .places = shape.places,
       .rows = shape.rows},
      {rows(), shape.rows}, [](const PassRow& row) { return row.position; },
      *bench.data<AttentionList>(t.items));
}

void Scene::fill_block_table(Random& random) {
  std::vector<int32_t> blocks;
  for (uint32_t b = 0; b < kv_blocks; ++b) blocks.push_back(static_cast<int32_t>(b));
  random.shuffle(blocks);
  bench.poison(t.block_table);
  const uint32_t per_sequence = blocks_for_tokens(shape.max_context);
  for (const uint32_t r : active_rows()) {
    int32_t* table = bench.data<int32_t>(t.block_table) + size_t{rows()[r].slot} * per_sequence;
    for (uint32_t b = 0; b <= rows()[r].position / kKvBlockTokens; ++b) {
      if (table[b] >= 0) continue;
      ASSERT_FALSE(blocks.empty());
      table[b] = blocks.back();
      blocks.pop_back();
    }
  }
}

void Scene::fill_slots(Random& random) {
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    SequenceSlot slot;
    slot.seed = random.bits();
    slot.sequence = random.below(1000);
    slot.temperature = random.pick<float>({0.0F, 0.7F, 1.5F});
    slot.top_k = random.pick<int32_t>({0, 1, 40});
    slot.top_p = random.pick<float>({1.0F, 0.9F});
    slot.min_p = random.pick<float>({0.0F, 0.05F});
    slot.repetition_penalty = random.pick<float>({1.0F, 1.3F});
    slot.repeat_last_n = random.pick<int32_t>({64, 3, 0, -1});
    slot.presence_penalty = random.pick<float>({0.0F, 0.0F, 0.7F, -1.5F});
    slot.frequency_penalty = random.pick<float>({0.0F, 0.0F, 0.3F, -0.2F});
    slot.num_top = random.pick<uint32_t>({0, 0, 1, 5, kMaxTopTokens});
    slot.num_biases = random.pick<uint32_t>({0, 0, 1, 7});
    slot.end_position = random.between(1, shape.max_context);
    slot.num_stop_tokens = random.below(kMaxStopTokens + 1);
    for (int32_t& token : slot.stop_tokens) token = static_cast<int32_t>(random.below(shape.vocab));
    slot.history_length = random.below(shape.max_context + 1);
    slot.prompt_length = random.below(slot.history_length + 1);
    slot.first_stop = random.pick<uint32_t>({0, slot.prompt_length, shape.max_context});
    slot.masked = random.pick<uint32_t>({0, 0, 1});
    slot.extras = extras_of(slot);
    for (uint32_t& word : mask(s))
      word = random.pick<uint32_t>({0, 0xffffffff, static_cast<uint32_t>(random.bits())});
    mask(s)[0] |= 1;
    mask(s).data()[mask_words(shape.vocab)] = kAnyPosition;
    for (int32_t& token : history(s)) token = static_cast<int32_t>(random.below(shape.vocab));
    const auto first = random.below(shape.vocab);
    for (uint32_t i = 0; i < kMaxLogitBiases; ++i)
      biases(s)[i] = {static_cast<int32_t>(first + i), static_cast<float>(random.real(-3, 3))};
    slots()[s] = slot;
  }
  for (uint32_t r = 0; r < shape.rows; ++r) {
    bench.data<SampledToken>(t.sampled)[r] = {static_cast<int32_t>(random.below(shape.vocab)),
                                              static_cast<float>(random.real(-9, 0))};
  }
  PassControl control;
  control.passes_done = random.below(std::min(20U, launch_passes(shape.rows)));
  control.passes_wanted = random.between(control.passes_done + 1, 40);
  *bench.data<PassControl>(t.control) = control;
  *bench.data<uint32_t>(t.host_stop) = random.below(4) == 0 ? 1 : 0;
}

void Scene::fill_activations(Random& random) {
  fill_residual(random);
  const auto count = [&](TensorId id) { return bench.tensor(id).rows * bench.tensor(id).cols; };
  const double q_scale = random.pick<double>({0.1, 0.5, 3});
  fill_16_bits(random, q_scale, bench, t.q);
  for (const TensorId id : {t.attended, t.product, t.k_cache, t.v_cache}) fill_16_bits(random, 1, bench, id);
  fill_16_bits(random, random.pick<double>({1e-6, 0.1, 1, 1e4}), bench, t.fp16);
  if (shape.e4m3_inputs) {
    quantise(bench, t.weighted, t.weighted_codes);
    quantise(bench, t.attended, t.attended_codes);
  }
  fill_f32(random, random.pick<double>({0.02, 1, 50}), count(t.projected), bench.data<float>(t.projected));
  if (bench.tensor(t.exchange).dtype == DType::kF32)
    fill_f32(random, 1, count(t.exchange), bench.data<float>(t.exchange));
  else
    fill_16_bits(random, 1, bench, t.exchange);
  for (const TensorId id : t.parts) fill_f32(random, 1, count(id), bench.data<float>(id));
  for (const TensorId id : t.projected_sums) fill_f32(random, 1, count(id), bench.data<float>(id));
  fill_f32(random, 6, count(t.logits), bench.data<float>(t.logits));
  fill_unit_softmax(bench, t.logits, t.unit_softmax);
  fill_f32(random, 3, count(t.pooled), bench.data<float>(t.pooled));
  for (const auto& [splits, id] : partials_) {
    float* values = bench.data<float>(id);
    fill_f32(random, 8, count(id), values);
    // The last of a leaf's head values is a sum of exponentials, which is at least 1.
    const uint32_t stride = shape.head_dim + PartialLayout::kExtra;
    for (size_t i = stride - 1; i < count(id); i += stride) values[i] = 1 + std::abs(values[i]);
  }
  float* values = bench.data<float>(t.places);
  fill_f32(random, 8, count(t.places), values);
  const uint32_t stride = shape.head_dim + PlaceLayout::kExtra;
  for (size_t i = stride - 1; i < count(t.places); i += stride) values[i] = 1 + std::abs(values[i]);
}

void Scene::fill_residual(Random& random) {
  const uint16_t* norm = bench.data<const uint16_t>(t.norm);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    float* row = bench.data<float>(t.residual) + size_t{r} * shape.hidden;
    uint16_t* weighted = bench.data<uint16_t>(t.weighted) + size_t{r} * shape.hidden;
    const uint32_t of_square = square_cols(shape.order());
    float* squares = bench.data<float>(t.squares) + size_t{r} * (shape.hidden / of_square);
    fill_f32(random, random.pick<double>({0.02, 1, 50}), shape.hidden, row);
    std::fill_n(squares, shape.hidden / of_square, 0.0F);
    for (uint32_t c = 0; c < shape.hidden; ++c) {
      weighted[c] = to_16_bits(bench.tensor(t.weighted).dtype, row[c] * bf16_to_float(norm[c]));
      squares[c / of_square] += row[c] * row[c];
    }
  }
}

std::span<TokenBias> Scene::biases(uint32_t slot) {
  const AdjustmentTable<std::byte> table{bench.data<std::byte>(t.adjustments), shape.max_context};
  return {reinterpret_cast<TokenBias*>(table.of(slot)), kMaxLogitBiases};
}

std::span<int32_t> Scene::history(uint32_t slot) {
  const AdjustmentTable<std::byte> table{bench.data<std::byte>(t.adjustments), shape.max_context};
  return {reinterpret_cast<int32_t*>(table.of(slot) + kHistoryOffset), shape.max_context};
}

std::span<uint32_t> Scene::mask(uint32_t slot) {
  return {bench.data<uint32_t>(t.masks) + size_t{slot} * mask_pitch(shape.vocab), mask_words(shape.vocab)};
}

SlotAdjustments Scene::adjustments(uint32_t slot) {
  return {biases(slot).first(slots()[slot].num_biases), history(slot).first(slots()[slot].history_length),
          mask(slot)};
}

std::vector<uint32_t> Scene::active_rows() const {
  std::vector<uint32_t> out;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    if (rows()[r].active != 0) out.push_back(r);
  }
  return out;
}

std::vector<uint32_t> Scene::computed_rows() const {
  std::vector<uint32_t> out = active_rows();
  if (logits_only != 0) std::erase_if(out, [&](uint32_t r) { return rows()[r].wants_logits == 0; });
  return out;
}

uint32_t Scene::logit_bound() const {
  uint32_t bound = 0;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    if (row_wants_logits(rows()[r])) bound = r + 1;
  }
  return bound;
}

StateView Scene::view() const {
  return {rows(), bench.data<const int32_t>(t.block_table), blocks_for_tokens(shape.max_context),
          bench.data<const AttentionList>(t.items)};
}

uint64_t Scene::block_of(const PassRow& row, uint32_t position) const {
  const int32_t* table = bench.data<const int32_t>(t.block_table);
  return static_cast<uint64_t>(
      table[size_t{row.slot} * blocks_for_tokens(shape.max_context) + position / kKvBlockTokens]);
}

Stage Scene::attention(uint32_t splits) {
  add_partial(splits);
  return attention_stage(splits);
}

Stage Scene::merge(uint32_t splits) {
  add_partial(splits);
  return merge_stage(splits);
}

Stage Scene::attention_stage(uint32_t splits) const {
  Attention op{.q = t.q,
               .k_cache = t.k_cache,
               .v_cache = t.v_cache,
               .rows = t.rows,
               .block_table = t.block_table,
               .partial = partial(splits),
               .kv_head = 0,
               .split = 0,
               .splits = splits,
               .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))};
  return {Opcode::kAttention, shape.kv_heads * splits, 1, [op](uint32_t first, uint32_t) mutable {
            op.kv_head = first / op.splits;
            op.split = first % op.splits;
            return make_instruction(op);
          }};
}

Stage Scene::merge_stage(uint32_t splits) const {
  AttentionMerge op{.partial = partial(splits),
                    .rows = t.rows,
                    .output = t.attended,
                    .first_head = 0,
                    .num_heads = 0,
                    .splits = splits};
  return {Opcode::kAttentionMerge, shape.q_heads, shape.q_heads,
          [op](uint32_t first, uint32_t count) mutable {
            op.first_head = first;
            op.num_heads = count;
            return make_instruction(op);
          }};
}

Stage Scene::planned_attention_stage() const {
  PlannedAttention op{.q = t.q,
                      .k_cache = t.k_cache,
                      .v_cache = t.v_cache,
                      .rows = t.rows,
                      .block_table = t.block_table,
                      .items = t.items,
                      .partial = t.places,
                      .output = t.attended,
                      .record = 0,
                      .records = shape.records,
                      .places = shape.places,
                      .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))};
  return {Opcode::kPlannedAttention, shape.records, 1, [op](uint32_t first, uint32_t) mutable {
            op.record = first;
            return make_instruction(op);
          }};
}

Stage Scene::planned_merge_stage() const {
  PlannedMerge op{.partial = t.places,
                  .rows = t.rows,
                  .items = t.items,
                  .output = t.attended,
                  .record = 0,
                  .records = shape.records,
                  .places = shape.places};
  return {Opcode::kPlannedMerge, shape.records, 1, [op](uint32_t first, uint32_t) mutable {
            op.record = first;
            return make_instruction(op);
          }};
}

Stage Scene::pool_stage() const {
  const uint32_t records = std::min(shape.records + 1, shape.hidden / kUnitRows);
  Pool op{.residual = t.residual,
          .squares = t.squares,
          .norm = t.norm,
          .rows = t.rows,
          .sampled = t.sampled,
          .pooled = t.pooled,
          .record = 0,
          .records = records,
          .hidden = shape.hidden,
          .epsilon = shape.epsilon};
  return {Opcode::kPool, records, 1, [op](uint32_t first, uint32_t) mutable {
            op.record = first;
            return make_instruction(op);
          }};
}

ProjectPart Scene::project_part() const {
  const Shape& s = shape;
  return {t.weighted,      t.wq, t.wk,  t.wv, t.rows, projected_sums(), 0, 0, s.hidden, projected_part,
          projected_parts, 0,    s.rows};
}

RopeParts Scene::rope_parts() const {
  const Shape& s = shape;
  return {projected_sums(),
          t.squares,
          t.rope,
          t.rows,
          t.block_table,
          t.q,
          t.k_cache,
          t.v_cache,
          {},
          {},
          {},
          0,
          0,
          s.hidden,
          projected_parts,
          s.epsilon,
          0,
          s.rows};
}

Stage Scene::quantise_stage() const {
  const QuantiseRows all{.input = t.fp16,
                         .rows = t.rows,
                         .output = t.codes,
                         .cols = static_cast<uint32_t>(bench.tensor(t.fp16).cols),
                         .logits_only = logits_only,
                         .num_rows = 0};
  return {Opcode::kQuantiseRows, shape.rows, shape.rows, [op = all](uint32_t first, uint32_t count) mutable {
            op.first_row = first;
            op.num_rows = count;
            return make_instruction(op);
          }};
}

std::vector<Stage> Scene::stages() const {
  const Shape& s = shape;
  std::vector<Stage> out;
  const auto add = [&]<class Op>(Op op, uint32_t units, uint32_t Op::*first, uint32_t Op::*count,
                                 uint32_t tile_units) {
    out.push_back(stage_of(op, {0, units}, first, count, {tile_units, s.tile_rows}));
  };
  constexpr uint32_t kTile = 16;  // units
  add(Embed{t.table, t.rows, t.norm, t.residual, t.weighted, t.squares, 0, 0, s.hidden, s.vocab, 0, s.rows},
      s.hidden / kUnitRows, &Embed::first_unit, &Embed::num_units, s.hidden / kUnitRows);
  add(QkvRope{t.weighted_codes, t.squares, t.wq, t.wk, t.wv, t.rope, t.rows,   t.block_table, t.q, t.k_cache,
              t.v_cache,        {},        {},   {},   0,    0,      s.hidden, s.epsilon,     0,   s.rows},
      (s.q_heads + 2 * s.kv_heads) * s.head_dim / kUnitRows, &QkvRope::first_unit, &QkvRope::num_units,
      kTile);
  out.push_back(attention_stage(s.splits));
  out.push_back(merge_stage(s.splits));
  add(MatvecResidual{t.wo, t.attended_codes, t.rows, t.norm, t.residual, t.weighted, t.squares, 0, 0,
                     s.q_heads * s.head_dim, s.hidden, logits_only, 0, s.rows, product_parts},
      s.hidden / kUnitRows, &MatvecResidual::first_unit, &MatvecResidual::num_units, kTile);
  add(GateUpSilu{t.weighted_codes, t.squares, t.gate, t.up, t.rows, t.product, 0, 0, s.hidden, s.intermediate,
                 s.epsilon, logits_only, 0, s.rows},
      s.intermediate / kUnitRows, &GateUpSilu::first_unit, &GateUpSilu::num_units, pair_units(s));
  add(LmHead{t.weighted_codes, t.squares, t.head, t.rows, t.logits, t.unit_softmax, 0, 0, s.hidden, s.vocab,
             s.epsilon, 0, s.logit_rows()},
      static_cast<uint32_t>(vocabulary_units(s.vocab)), &LmHead::first_unit, &LmHead::num_units, kTile);
  Sample sample{t.logits, t.unit_softmax, t.rows, t.slots, t.adjustments, t.masks, t.sampled, t.top, t.saved,
                0,        s.logit_rows(), 0,      0,       s.vocab};
  out.push_back(
      {Opcode::kSample, s.logit_rows(), s.rows_of_sample, [sample](uint32_t first, uint32_t count) mutable {
         sample.record = first;
         sample.first_row = first;
         sample.num_rows = count;
         return make_instruction(sample);
       }});
  const Advance advance{t.sampled, t.host_stop, t.rows, t.slots, t.control, t.output, t.adjustments};
  out.push_back(
      {Opcode::kAdvance, 1, 1, [advance](uint32_t, uint32_t) { return make_instruction(advance); }});
  out.push_back(planned_attention_stage());
  out.push_back(planned_merge_stage());
  const uint32_t heads = s.q_heads + 2 * s.kv_heads;
  add(QkvProject{t.weighted_codes, t.squares, t.plain_wq, t.plain_wk, t.plain_wv, t.rows, t.projected, 0, 0,
                 s.hidden, s.epsilon, 0, s.rows},
      heads * s.head_dim / kUnitRows, &QkvProject::first_unit, &QkvProject::num_units, kTile);
  add(QkNormRope{t.projected, t.q_norm, t.k_norm, t.rope, t.rows, t.block_table, t.q, t.k_cache, t.v_cache, 0,
                 0, s.epsilon, 0, s.rows},
      heads, &QkNormRope::first_head, &QkNormRope::num_heads, heads);
  const PeerTensors exchange{t.exchange.index}, weighted{t.weighted.index}, squares{t.squares.index};
  add(MatvecPush{t.wo, t.attended, t.rows, exchange, 0, 0, s.q_heads * s.head_dim, s.hidden, 0, 1,
                 logits_only, 0, s.rows},
      s.hidden / kUnitRows, &MatvecPush::first_unit, &MatvecPush::num_units, kTile);
  add(ReduceResidual{t.exchange, t.rows, t.norm, t.residual, weighted, squares, 0, 0, s.hidden, 0, 1,
                     logits_only, 0, s.rows, begins},
      s.hidden / kUnitRows, &ReduceResidual::first_unit, &ReduceResidual::num_units, kTile);
  const PushState push{t.rows, t.control, t.peer_rows, t.peer_control};
  out.push_back({Opcode::kPushState, 1, 1, [push](uint32_t, uint32_t) { return make_instruction(push); }});
  const ColumnRange cols = columns_of_part(s.q_heads * s.head_dim, sums_part, sums_parts);
  add(MatvecPart{t.wo, t.attended_codes, t.rows, t.part_sums, 0, 0, s.q_heads * s.head_dim, s.hidden,
                 cols.begin, cols.count(), logits_only, 0, s.rows},
      s.hidden / kUnitRows, &MatvecPart::first_unit, &MatvecPart::num_units, kTile);
  const auto part = [&](uint32_t p) { return t.parts[p < added_parts ? p : 0]; };
  add(AddParts{t.rows, t.norm, t.residual, t.weighted, t.squares, part(0), part(1), part(2), part(3),
               added_parts, s.hidden, 0, 0, logits_only, 0, s.rows},
      s.hidden / kUnitRows, &AddParts::first_unit, &AddParts::num_units, kTile);
  add(EmbedPush{t.table, t.rows, exchange, 0, 0, s.hidden, s.vocab, 0, s.vocab, 0, 1, 0, s.rows},
      s.hidden / kUnitRows, &EmbedPush::first_unit, &EmbedPush::num_units, s.hidden / kUnitRows);
  add(project_part(), heads * s.head_dim / kUnitRows, &ProjectPart::first_unit, &ProjectPart::num_units,
      kTile);
  add(rope_parts(), heads * s.head_dim / kUnitRows, &RopeParts::first_unit, &RopeParts::num_units, kTile);
  out.push_back(pool_stage());
  out.push_back(quantise_stage());
  return out;
}

Stage Scene::stage(Opcode opcode) const {
  return stages()[static_cast<size_t>(opcode)];
}

void Scene::poison_outputs(const Stage& stage) {
  testing::poison_outputs(bench, whole(stage));
}

void poison_outputs(Bench& bench, const std::vector<Instruction>& instances) {
  std::set<uint32_t> read, written;
  for (const Instruction& i : instances) {
    for (const Region& r : footprint_of(bench, i, nullptr)) {
      if (reads(r.access)) read.insert(r.tensor.index);
      if (writes(r.access)) written.insert(r.tensor.index);
    }
  }
  for (const uint32_t index : written) {
    if (!read.contains(index)) bench.poison({index});
  }
}

double round_to_bf16(double value) {
  constexpr int kSignificantBits = 8, kSmallestExponent = -126;
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // value = m × 2^exponent, 1/2 <= |m| < 1
  const int quantum = std::max(exponent, kSmallestExponent + 1) - kSignificantBits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

std::vector<uint16_t> random_bf16(Random& random, size_t n) {
  std::vector<uint16_t> out(n);
  for (uint16_t& value : out) {
    value = float_to_bf16(static_cast<float>(random.real(-1, 1) * std::exp2(random.real(-20, 20))));
  }
  return out;
}

float sum_in_order(const uint16_t* weights, const uint16_t* x, size_t cols) {
  float partials[kMatvecLanes] = {};
  for (size_t k = 0; k < cols; ++k)
    partials[k % kMatvecLanes] += bf16_to_float(weights[k]) * bf16_to_float(x[k]);
  for (size_t half = kMatvecLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) partials[i] += partials[i + half];
  }
  return partials[0];
}

double rounding_error(uint32_t operations, double magnitude) {
  constexpr double kHalfUlp = 0x1p-24;  // of fp32, relative
  return operations * kHalfUlp / (1 - operations * kHalfUlp) * magnitude;
}

double sum_error(uint32_t terms, double magnitude) {
  constexpr uint32_t kPartials = 32, kFolds = 5;
  return rounding_error((terms + kPartials - 1) / kPartials + kFolds, magnitude);
}

Cover empty_cover(const Bench& bench) {
  Cover out;
  for (const Tensor& t : bench.program.tensors) out.emplace_back(t.bytes() / size_of(t.dtype), uint8_t{0});
  return out;
}

void add_to_cover(const Bench& bench, const Footprint& footprint, bool (*wanted)(Access), Cover& cover) {
  for (const Region& r : footprint) {
    if (!wanted(r.access)) continue;
    // A whole row of codes has its scale.
    const Tensor& tensor = bench.tensor(r.tensor);
    const bool scales = has_input_scales(tensor) && r.box.col_begin == 0 && r.box.col_end == tensor.cols;
    const uint64_t col_end = r.box.col_end + (scales ? sizeof(float) : 0);
    for (uint64_t row = r.box.row_begin; row < r.box.row_end; ++row) {
      for (uint64_t col = r.box.col_begin; col < col_end; ++col) {
        uint8_t& times = cover[r.tensor.index].at(bench.element(r.tensor, row, col));
        if (times < UINT8_MAX) ++times;
      }
    }
  }
}

Footprint footprint_of(const Bench& bench, const Instruction& instruction, const StateView* state) {
  Footprint out;
  op_info(instruction.opcode).footprint(instruction, bench.program, state, out);
  return out;
}

Cover written_by(const Bench& bench, const StateView& view, const std::vector<Instruction>& instances) {
  Cover cover = empty_cover(bench);
  for (const Instruction& i : instances) add_to_cover(bench, footprint_of(bench, i, &view), writes, cover);
  return cover;
}

}  // namespace serval::testing
