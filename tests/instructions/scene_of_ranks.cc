#include "tests/instructions/scene_of_ranks.h"

#include <algorithm>
#include <type_traits>

#include "gtest/gtest.h"

#include "instructions/common/qkv_heads.h"
#include "instructions/common/slices.h"
#include "vm/base/bf16.h"
#include "vm/reflect.h"

namespace serval::testing {

namespace {

bool pushes(Opcode opcode) {
  return std::ranges::any_of(op_info(static_cast<uint16_t>(opcode)).fields, &FieldInfo::pushed);
}

}  // namespace

bool is_of_ranks_alone(Opcode opcode) {
  if (opcode == Opcode::kProjectPart || opcode == Opcode::kRopeParts) return true;
  return pushes(opcode) && opcode != Opcode::kLmHead;
}

std::vector<Opcode> ops_of_ranks() {
  std::vector<Opcode> ops;
  for (uint16_t op = 0; op < kNumOpcodes; ++op) {
    if (is_of_ranks_alone(Opcode{op}) || pushes(Opcode{op})) ops.push_back(Opcode{op});
  }
  return ops;
}

std::vector<Instruction> joined(const std::vector<std::vector<Instruction>>& of_ranks) {
  std::vector<Instruction> all;
  for (const auto& own : of_ranks) all.insert(all.end(), own.begin(), own.end());
  return all;
}

SceneOfRanks::SceneOfRanks(uint32_t ranks, const Shape& shape, Random& random) : ranks_(ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    scenes_.emplace_back(shape, random);
    scenes_.back().new_pass(random);
  }
  bench.program.limits = lead().bench.program.limits;
  bench.program.order = lead().bench.program.order;
  bench.program.heads = lead().bench.program.heads;
  bench.program.num_devices = ranks;
  add_tensors();
  share_vocabulary(lead().t.table);
  share_vocabulary(lead().t.head);
  add_biases(random);
}

void SceneOfRanks::add_tensors() {
  for (uint32_t t = 0; t < lead().bench.memory.size(); ++t) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      Tensor tensor = lead().bench.tensor({t});
      tensor.device = static_cast<uint8_t>(rank);
      bench.program.tensors.push_back(std::move(tensor));
      bench.memory.push_back(scenes_[rank].bench.memory[t]);
    }
  }
}

// Each rank has its share of the first one's rows. A rank without tokens of its own still has one unit, as in
// models/ranks.h.
void SceneOfRanks::share_vocabulary(TensorId table) {
  const uint64_t vocab = lead().shape.vocab, cols = lead().shape.hidden;
  const auto* whole = lead().bench.data<const std::byte>(table);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const VocabularyShare own = vocabulary_share(lead().shape.vocab, rank, ranks_);
    const uint64_t rows = own.count > 0 ? own.count : std::min<uint64_t>(kUnitRows, vocab - own.first);
    const TensorId id = on(table, rank);
    const auto* from = whole + own.first * cols * sizeof(uint16_t);
    bench.program.tensors[id.index].rows = rows;
    bench.program.tensors[id.index].image = image_of(TensorKind::kWeight, rows);
    bench.memory[id.index].assign(from, from + rows * cols * sizeof(uint16_t));
  }
}

void SceneOfRanks::add_biases(Random& random) {
  const Shape& s = lead().shape;
  const auto add = [&](const char* name, uint32_t heads) {
    TensorId first{};
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const TensorId id = bench.add(name, DType::kBF16, TensorKind::kWeight, 1, uint64_t{heads} * s.head_dim);
      bench.program.tensors[id.index].device = static_cast<uint8_t>(rank);
      for (uint32_t c = 0; c < heads * s.head_dim; ++c)
        bench.data<uint16_t>(id)[c] = float_to_bf16(static_cast<float>(random.real(-2, 2)));
      if (rank == 0) first = id;
    }
    return first;
  };
  q_bias_ = add("q_bias", s.q_heads);
  k_bias_ = add("k_bias", s.kv_heads);
  v_bias_ = add("v_bias", s.kv_heads);
}

void SceneOfRanks::new_pass(Random& random, const std::vector<uint32_t>& positions) {
  Scene& first = scenes_.front();
  if (positions.empty())
    first.new_pass(random);
  else
    first.new_pass(random, positions);
  first.arrange_rows(random);
  PassControl& control = *first.bench.data<PassControl>(first.t.control);
  control.last_pass = random.chance(0.5) ? control.passes_done : kKeepRunning;
  control.stopped_by_host = random.below(2);
  has_biases_ = random.chance(0.5);
  if (first.shape.tile_rows > 0) {
    tile_ = {random.pick<uint32_t>({kTileUnits, kTileUnits / 2}), random.pick<uint32_t>({32, 64, 128, 256})};
  }
  for (uint32_t t = 0; t < first.bench.memory.size(); ++t) {
    const TensorKind kind = first.bench.tensor({t}).kind;
    if (is_immutable(kind)) continue;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Scene& from = kind == TensorKind::kState ? first : scenes_[rank];
      bench.memory[on({t}, rank).index] = from.bench.memory[t];
    }
  }
}

template <class Op>
Op SceneOfRanks::op_of(uint32_t rank) const {
  Op op = lead().stage(kOpcodeOf<Op>).make(0, 1).template as<Op>();
  Op::fields([&](auto member, const char*, const char*) {
    using Field = typename MemberOf<decltype(member)>::Type;
    if constexpr (std::is_same_v<Field, TensorId>) op.*member = on(op.*member, 0);
    if constexpr (std::is_same_v<Field, PeerTensors>) op.*member = {(op.*member).first * ranks_};
  });
  op = on_rank(op, rank);
  op.first_row = 0;
  op.num_rows = std::is_same_v<Op, LmHead> ? lead().shape.logit_rows() : lead().shape.rows;
  if constexpr (requires { op.ranks; }) {
    op.rank = rank;
    op.ranks = ranks_;
  }
  return op;
}

template <class Op>
Stage SceneOfRanks::units_of(const Op& op, UnitRange units, uint32_t tile_units) const {
  return stage_of(op, units, &Op::first_unit, &Op::num_units, {tile_units, tile_.rows});
}

// Reduces the rank's own slice. All its tiles have the same size: the maximum or half of it.
Stage SceneOfRanks::reduce_residual(uint32_t rank) const {
  const uint32_t units = lead().shape.hidden / kUnitRows / ranks_;
  uint32_t tile_units = tile_.units * (kMostUnitsReduced / kTileUnits);
  while (units % tile_units != 0) tile_units /= 2;
  return units_of(op_of<ReduceResidual>(rank), {rank * units, units}, tile_units);
}

// All ranks push to the first one.
Stage SceneOfRanks::lm_head(uint32_t rank) const {
  const VocabularyShare own = vocabulary_share(lead().shape.vocab, rank, ranks_);
  const auto first = static_cast<uint32_t>(own.first / kUnitRows);
  LmHead op = op_of<LmHead>(rank);
  op.weights_unit = first;
  return units_of(op, {first, static_cast<uint32_t>(vocabulary_units(own.count))}, tile_.units);
}

Stage SceneOfRanks::rope_parts(uint32_t rank) const {
  RopeParts op = op_of<RopeParts>(rank);
  if (has_biases_) {
    op.q_bias = {q_bias_.index + rank};
    op.k_bias = {k_bias_.index + rank};
    op.v_bias = {v_bias_.index + rank};
  }
  return units_of(op, {0, qkv_units(bench.program.heads)}, tile_.units);
}

// The first rank pushes to each of the others.
Stage SceneOfRanks::push_state(uint32_t rank) const {
  const TensorId rows = lead().t.rows, control = lead().t.control;
  PushState op{on(rows, 0), on(control, 0), {}, {}};
  const auto make = [op](uint32_t peer, uint32_t) mutable {
    op.peer_rows = {op.rows.index + 1 + peer};
    op.peer_control = {op.control.index + 1 + peer};
    return make_instruction(op);
  };
  return {Opcode::kPushState, rank == 0 ? ranks_ - 1 : 0, 1, make};
}

Stage SceneOfRanks::stage(Opcode opcode, uint32_t rank) const {
  const uint32_t units = lead().shape.hidden / kUnitRows;
  switch (opcode) {
    case Opcode::kMatvecPush:
      return units_of(op_of<MatvecPush>(rank), {0, units}, tile_.units);
    case Opcode::kReduceResidual:
      return reduce_residual(rank);
    case Opcode::kEmbedPush: {
      const VocabularyShare own = vocabulary_share(lead().shape.vocab, rank, ranks_);
      EmbedPush op = op_of<EmbedPush>(rank);
      op.first_token = static_cast<uint32_t>(own.first);
      op.num_tokens = static_cast<uint32_t>(own.count);
      return units_of(op, {0, units}, tile_.units);
    }
    case Opcode::kLmHead:
      return lm_head(rank);
    case Opcode::kProjectPart:
      return units_of(op_of<ProjectPart>(rank), {0, qkv_units(bench.program.heads)}, tile_.units);
    case Opcode::kRopeParts:
      return rope_parts(rank);
    case Opcode::kPushState:
      return push_state(rank);
    default:
      ADD_FAILURE() << op_name(static_cast<uint16_t>(opcode))
                    << ": tests/instructions/scene_of_ranks.cc has no such stage";
      return {opcode, 0, 1, {}};
  }
}

std::vector<Instruction> SceneOfRanks::whole(Opcode opcode) const {
  std::vector<std::vector<Instruction>> all;
  for (uint32_t rank = 0; rank < ranks_; ++rank) all.push_back(testing::whole(stage(opcode, rank)));
  return joined(all);
}

std::vector<std::vector<Instruction>> SceneOfRanks::split(Opcode opcode, Random& random) const {
  std::vector<std::vector<Instruction>> all;
  for (uint32_t rank = 0; rank < ranks_; ++rank) all.push_back(testing::split(stage(opcode, rank), random));
  return all;
}

}  // namespace serval::testing
