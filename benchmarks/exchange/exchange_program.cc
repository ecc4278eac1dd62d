#include "benchmarks/exchange/exchange_program.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "instructions/common/residual.h"
#include "instructions/common/slices.h"
#include "instructions/common/tile_shape.h"
#include "instructions/isa.h"
#include "instructions/kernels.h"
#include "vm/base/error.h"
#include "vm/reflect.h"
#include "vm/state/names.h"
#include "vm/state/parts.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

constexpr uint32_t kAllOperands = (1U << kMaxTensorOperands) - 1;
constexpr uint32_t kEmbedInstances = 32;
constexpr float kEpsilon = 1e-5F;
constexpr uint32_t kMostMatrices = 64;

bool has_tiles(uint32_t rows) {
  return rows > kDefaultRows;
}

// Consecutive units of consecutive rows.
struct Piece {
  uint32_t first_unit, num_units;
  uint32_t first_row, num_rows;

  bool touches(const Piece& other) const {
    return first_unit < other.first_unit + other.num_units && other.first_unit < first_unit + num_units &&
           first_row < other.first_row + other.num_rows && other.first_row < first_row + num_rows;
  }
};

template <class Op>
Op of_piece(Op op, const Piece& piece) {
  op.first_unit = piece.first_unit;
  op.num_units = piece.num_units;
  op.first_row = piece.first_row;
  op.num_rows = piece.num_rows;
  return op;
}

class Builder {
 public:
  Builder(const ExchangeShape& shape, const Machine& machine);
  Program build();

 private:
  // An instruction before the queues are laid out. It waits until its counters are complete.
  struct Item {
    Instruction record;
    std::vector<uint32_t> waits, signals;
  };

  void add_state();
  void add_tensors();
  TensorId state(const char* name, uint32_t rank = 0);
  TensorId on_each_rank(Tensor tensor);
  TensorId weight(const char* name, uint64_t rows, uint64_t cols);
  TensorId activation(const char* name, DType dtype, uint64_t cols);
  TensorId product_input(const char* name, uint64_t cols);
  uint32_t counter(uint32_t rank, CounterScope scope = CounterScope::kSystem);

  template <class Op>
  void add(uint32_t sm, const Op& op, std::vector<uint32_t> waits, std::vector<uint32_t> signals,
           uint16_t tag = kNoTag);
  // The SM of instance `i` of `count` on a rank.
  uint32_t sm_of(uint32_t rank, uint32_t i, size_t count) const;
  std::vector<Piece> pieces_of_push() const;
  std::vector<Piece> pieces_of_slice(uint32_t rank) const;
  // For products of vectors: at most `parts` pieces, each of all rows.
  std::vector<Piece> equal_pieces(uint32_t first_unit, uint32_t units, uint32_t parts) const;
  // For products of tiles of rows.
  std::vector<Piece> tiles(uint32_t first_unit, uint32_t units, TileShape tile) const;

  void embed();
  void round(uint32_t index);
  void push(uint32_t rank, uint32_t index, const std::vector<std::vector<uint32_t>>& sums);
  void reduce(uint32_t rank, uint32_t index, const std::vector<uint32_t>& sums,
              const std::vector<uint32_t>& whole);
  void sample_and_advance();
  void push_state(uint32_t decided);
  void lay_out();

  const ExchangeShape shape_;
  const uint32_t tile_rows_, logit_rows_;
  Program program_;
  std::vector<std::vector<Item>> queues_;
  std::vector<TensorId> weights_;  // one for each matrix
  TensorId rows_, control_, table_, input_table_, norm_, input_norm_;
  TensorId input_, residual_, weighted_, squares_, exchange_, input_residual_, input_squares_;
  std::vector<uint32_t> whole_;  // for each rank, the counter that the next round waits for
  std::vector<std::vector<Piece>> slices_;
};

Builder::Builder(const ExchangeShape& shape, const Machine& machine)
    : shape_(shape),
      tile_rows_(has_tiles(shape.rows) ? widest_kernel(shape.ranks).tile_rows : 0),
      logit_rows_(logit_rows({.rows = shape.rows, .sequences = 1})),
      queues_(size_t{shape.ranks} * machine.sms) {
  program_.machine = machine;
  if (tile_rows_ > 0) program_.machine.pages_per_sm = std::min(machine.pages_per_sm, tile_ring_pages());
  program_.num_devices = shape.ranks;
  program_.limits = {.vocab = kExchangeTokens,
                     .max_context = shape.rows,
                     .kv_blocks = 1,
                     .rows = shape.rows,
                     .sequences = 1};
  program_.order = tile_rows_ > 0 ? Order::kTile : Order::kVector;
  program_.metadata["model"] = "all-reduce";
  program_.metadata["isa"] = isa_fingerprint();
}

Program Builder::build() {
  add_state();
  add_tensors();
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) slices_.push_back(pieces_of_slice(rank));
  embed();
  for (uint32_t index = 0; index < shape_.rounds; ++index) round(index);
  sample_and_advance();
  lay_out();
  return std::move(program_);
}

TensorId Builder::state(const char* name, uint32_t rank) {
  Tensor tensor = *state_part(name, program_.limits);
  tensor.device = static_cast<uint8_t>(rank);
  program_.tensors.push_back(tensor);
  return {static_cast<uint32_t>(program_.tensors.size() - 1)};
}

TensorId Builder::on_each_rank(Tensor tensor) {
  const TensorId first{static_cast<uint32_t>(program_.tensors.size())};
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    tensor.device = static_cast<uint8_t>(rank);
    program_.tensors.push_back(tensor);
  }
  return first;
}

TensorId Builder::weight(const char* name, uint64_t rows, uint64_t cols) {
  return on_each_rank({.name = name,
                       .rows = rows,
                       .cols = cols,
                       .dtype = DType::kBF16,
                       .kind = TensorKind::kWeight,
                       .image = image_of(TensorKind::kWeight, rows)});
}

TensorId Builder::activation(const char* name, DType dtype, uint64_t cols) {
  return on_each_rank(
      {.name = name, .rows = shape_.rows, .cols = cols, .dtype = dtype, .kind = TensorKind::kActivation});
}

TensorId Builder::product_input(const char* name, uint64_t cols) {
  const TensorId first = activation(name, DType::kBF16, cols);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
    program_.tensors[first.index + rank].image = product_image(program_.order);
  return first;
}

uint32_t Builder::counter(uint32_t rank, CounterScope scope) {
  program_.counters.push_back({.scope = scope, .device = static_cast<uint8_t>(rank)});
  return static_cast<uint32_t>(program_.counters.size() - 1);
}

void Builder::add_state() {
  rows_ = {0};
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) state(state_tensor::kRows, rank);
  control_ = {shape_.ranks};
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) state(state_tensor::kControl, rank);
}

void Builder::add_tensors() {
  for (uint32_t m = 0; m < shape_.matrices; ++m)
    weights_.push_back(weight(exchange_tensor::weights(m).c_str(), shape_.cols, shape_.weight_cols));
  table_ = weight(exchange_tensor::kTable, kExchangeTokens, shape_.cols);
  input_table_ = weight(exchange_tensor::kInputTable, kExchangeTokens, shape_.weight_cols);
  norm_ = weight(exchange_tensor::kNorm, 1, shape_.cols);
  input_norm_ = weight(exchange_tensor::kInputNorm, 1, shape_.weight_cols);
  input_ = product_input("input", shape_.weight_cols);
  input_residual_ = activation("input_residual", DType::kF32, shape_.weight_cols);
  input_squares_ = activation("input_squares", DType::kF32, shape_.weight_cols / square_cols(program_.order));
  residual_ = activation(exchange_tensor::kResidual, DType::kF32, shape_.cols);
  weighted_ = product_input(exchange_tensor::kWeighted, shape_.cols);
  squares_ = activation("squares", DType::kF32, shape_.cols / square_cols(program_.order));
  exchange_ = activation("exchange", partial_sum_type(program_.order), shape_.cols);
}

template <class Op>
void Builder::add(uint32_t sm, const Op& op, std::vector<uint32_t> waits, std::vector<uint32_t> signals,
                  uint16_t tag) {
  for (const uint32_t c : signals) ++program_.counters[c].increments_per_pass;
  queues_[sm].push_back({make_instruction(op, tag), std::move(waits), std::move(signals)});
}

uint32_t Builder::sm_of(uint32_t rank, uint32_t i, size_t count) const {
  const uint32_t sms = program_.machine.sms;
  return rank * sms + (count < sms ? static_cast<uint32_t>(size_t{i} * sms / count) : i % sms);
}

std::vector<Piece> Builder::equal_pieces(uint32_t first_unit, uint32_t units, uint32_t parts) const {
  std::vector<Piece> out;
  parts = std::min(parts, program_.machine.sms);
  for (uint32_t p = 0; p < parts; ++p) {
    const auto begin = static_cast<uint32_t>(uint64_t{units} * p / parts);
    const auto end = static_cast<uint32_t>(uint64_t{units} * (p + 1) / parts);
    out.push_back({first_unit + begin, end - begin, 0, shape_.rows});
  }
  return out;
}

std::vector<Piece> Builder::tiles(uint32_t first_unit, uint32_t units, TileShape tile) const {
  std::vector<Piece> out;
  for (uint32_t row = 0; row < shape_.rows; row += tile.rows) {
    for (uint32_t unit = 0; unit < units; unit += tile.units) {
      out.push_back({first_unit + unit, std::min(tile.units, units - unit), row,
                     std::min(tile.rows, shape_.rows - row)});
    }
  }
  return out;
}

std::vector<Piece> Builder::pieces_of_push() const {
  const uint32_t units = shape_.cols / kUnitRows;
  if (tile_rows_ == 0) return equal_pieces(0, units, units);
  return tiles(0, units, tile_shape(units, shape_.rows, tile_rows_, program_.machine.sms));
}

std::vector<Piece> Builder::pieces_of_slice(uint32_t rank) const {
  const uint32_t units = shape_.cols / shape_.ranks / kUnitRows, first = rank * units;
  if (tile_rows_ > 0)
    return tiles(first, units, reduction_shape(units, shape_.rows, tile_rows_, program_.machine.sms));
  const uint32_t least = reduce_units(shape_.rows);
  return equal_pieces(first, units, (units + least - 1) / least);
}

// Makes the input of the first round on all ranks: each rank's instances signal all of them.
void Builder::embed() {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) whole_.push_back(counter(rank));
  const Embed residual{.table = table_,
                       .rows = rows_,
                       .norm = norm_,
                       .residual = residual_,
                       .weighted = weighted_,
                       .squares = squares_,
                       .first_unit = 0,
                       .num_units = shape_.cols / kUnitRows,
                       .hidden = shape_.cols,
                       .vocab = kExchangeTokens,
                       .num_rows = shape_.rows};
  Embed input = residual;
  input.table = input_table_;
  input.norm = input_norm_;
  input.residual = input_residual_;
  input.weighted = input_;
  input.squares = input_squares_;
  input.num_units = shape_.weight_cols / kUnitRows;
  input.hidden = shape_.weight_cols;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    // By columns, or by rows if there are many.
    const uint32_t all = tile_rows_ > 0 ? shape_.rows : shape_.cols / kTileDim;
    const uint32_t parts = std::min({all, kEmbedInstances, program_.machine.sms});
    for (uint32_t p = 0; p < parts; ++p) {
      const uint32_t begin = all * p / parts, count = all * (p + 1) / parts - begin;
      constexpr uint32_t kUnits = kTileDim / kUnitRows;
      const Piece piece = tile_rows_ > 0 ? Piece{0, residual.num_units, begin, count}
                                         : Piece{begin * kUnits, count * kUnits, 0, shape_.rows};
      const uint32_t sm = sm_of(rank, p, parts);
      add(sm, on_rank(of_piece(residual, piece), rank), {}, whole_);
      if (tile_rows_ > 0)
        add(sm, on_rank(of_piece(input, {0, input.num_units, begin, count}), rank), {}, whole_);
    }
    if (tile_rows_ == 0) add(sm_of(rank, 0, 1), on_rank(input, rank), {}, whole_);
  }
}

void Builder::round(uint32_t index) {
  std::vector<std::vector<uint32_t>> sums(shape_.ranks);  // for each piece of each slice
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    for (size_t i = 0; i < slices_[rank].size(); ++i) sums[rank].push_back(counter(rank));
  }
  // After the last round only rank 0 continues.
  const uint32_t ranks_that_wait = index + 1 < shape_.rounds ? shape_.ranks : 1;
  std::vector<uint32_t> whole;
  for (uint32_t rank = 0; rank < ranks_that_wait; ++rank) whole.push_back(counter(rank));
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) push(rank, index, sums);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) reduce(rank, index, sums[rank], whole);
  whole_ = std::move(whole);
}

void Builder::push(uint32_t rank, uint32_t index, const std::vector<std::vector<uint32_t>>& sums) {
  const MatvecPush op{.weights = weights_[index % shape_.matrices],
                      .input = input_,
                      .rows = rows_,
                      .partial = {exchange_.index},
                      .first_unit = 0,
                      .num_units = 0,
                      .in_cols = shape_.weight_cols,
                      .out_cols = shape_.cols,
                      .rank = rank,
                      .ranks = shape_.ranks,
                      .num_rows = shape_.rows};
  const std::vector<Piece> all = pieces_of_push();
  for (uint32_t i = 0; i < all.size(); ++i) {
    std::vector<uint32_t> signals;
    for (uint32_t owner = 0; owner < shape_.ranks; ++owner) {
      for (size_t s = 0; s < slices_[owner].size(); ++s) {
        if (slices_[owner][s].touches(all[i])) signals.push_back(sums[owner][s]);
      }
    }
    add(sm_of(rank, i, all.size()), on_rank(of_piece(op, all[i]), rank), {whole_[rank]}, signals,
        static_cast<uint16_t>(index));
  }
}

void Builder::reduce(uint32_t rank, uint32_t index, const std::vector<uint32_t>& sums,
                     const std::vector<uint32_t>& whole) {
  const ReduceResidual op{.partial = exchange_,
                          .rows = rows_,
                          .norm = norm_,
                          .residual = residual_,
                          .weighted = {weighted_.index},
                          .squares = {squares_.index},
                          .first_unit = 0,
                          .num_units = 0,
                          .out_cols = shape_.cols,
                          .rank = rank,
                          .ranks = shape_.ranks,
                          .num_rows = shape_.rows};
  const std::vector<Piece>& slice = slices_[rank];
  for (uint32_t i = 0; i < slice.size(); ++i) {
    add(sm_of(rank, i, slice.size()), on_rank(of_piece(op, slice[i]), rank), {sums[i]}, whole,
        static_cast<uint16_t>(index));
  }
}

// Only rank 0 samples. The other ranks wait for it at the gate.
void Builder::sample_and_advance() {
  const auto of_logits = [&](const char* name, uint64_t rows, uint64_t cols) {
    program_.tensors.push_back(
        {.name = name, .rows = rows, .cols = cols, .dtype = DType::kF32, .kind = TensorKind::kActivation});
    return TensorId{static_cast<uint32_t>(program_.tensors.size() - 1)};
  };
  const StateLimits& limits = program_.limits;
  const TensorId logits = of_logits("logits", logit_rows_, kExchangeTokens);
  const TensorId unit_softmax =
      of_logits("unit_softmax", logit_rows_, vocabulary_units(kExchangeTokens) * kUnitSoftmaxCols);
  const TensorId saved = of_logits("saved", logit_rows_, saved_cols(kExchangeTokens, limits.max_context));
  const TensorId slots = state(state_tensor::kSlots), sampled = state(state_tensor::kSampled);
  const TensorId adjustments = state(state_tensor::kAdjustments), masks = state(state_tensor::kMasks);
  const TensorId top = state(state_tensor::kTop), output = state(state_tensor::kOutput);
  const TensorId host_stop = state(state_tensor::kHostStop);

  const uint32_t of_head = counter(0, CounterScope::kGpu), of_samples = counter(0, CounterScope::kGpu),
                 decided = counter(0, CounterScope::kGpu);
  add(0,
      LmHead{.weighted = weighted_,
             .squares = squares_,
             .weights = table_,
             .rows = rows_,
             .logits = logits,
             .unit_softmax = unit_softmax,
             .first_unit = 0,
             .num_units = kExchangeTokens / kUnitRows,
             .hidden = shape_.cols,
             .vocab = kExchangeTokens,
             .epsilon = kEpsilon,
             .num_rows = logit_rows_},
      {whole_.front()}, {of_head});
  for (uint32_t row = 0; row < logit_rows_; ++row) {
    add(sm_of(0, row, logit_rows_),
        Sample{.logits = logits,
               .unit_softmax = unit_softmax,
               .rows = rows_,
               .slots = slots,
               .adjustments = adjustments,
               .masks = masks,
               .sampled = sampled,
               .top = top,
               .saved = saved,
               .record = row,
               .records = logit_rows_,
               .first_row = row,
               .num_rows = 1,
               .vocab = kExchangeTokens},
        {of_head}, {of_samples});
  }
  add(0,
      Advance{.sampled = sampled,
              .host_stop = host_stop,
              .rows = rows_,
              .slots = slots,
              .control = control_,
              .output = output,
              .adjustments = adjustments},
      {of_samples}, {decided});
  push_state(decided);
}

void Builder::push_state(uint32_t decided) {
  std::vector<uint32_t> gates;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) gates.push_back(counter(rank));
  program_.gate_counter = gates.front();
  for (uint32_t rank = 1; rank < shape_.ranks; ++rank) {
    add(sm_of(0, rank - 1, shape_.ranks - 1),
        PushState{.rows = rows_,
                  .control = control_,
                  .peer_rows = {rows_.index + rank},
                  .peer_control = {control_.index + rank}},
        {decided}, gates);
  }
}

void Builder::lay_out() {
  program_.queue_begin = {0};
  for (const std::vector<Item>& queue : queues_) {
    for (const Item& item : queue) {
      Instruction record = item.record;
      record.wait_begin = static_cast<uint32_t>(program_.waits.size());
      record.wait_count = static_cast<uint16_t>(item.waits.size());
      record.signal_begin = static_cast<uint32_t>(program_.signals.size());
      record.signal_count = static_cast<uint16_t>(item.signals.size());
      for (const uint32_t c : item.waits)
        program_.waits.push_back({c, program_.counters[c].increments_per_pass, kAllOperands});
      for (const uint32_t c : item.signals) program_.signals.push_back({c, 1});
      program_.instructions.push_back(record);
    }
    program_.queue_begin.push_back(static_cast<uint32_t>(program_.instructions.size()));
  }
}

void check(const ExchangeShape& shape) {
  if (shape.ranks < 2 || shape.ranks > kMaxDevices || !std::has_single_bit(shape.ranks))
    throw Error(ErrorKind::kUsage, fmt::format("ranks: {}; expected 2, 4 or 8", shape.ranks));
  if (shape.rows < 1 || shape.rows > kLargestRows)
    throw Error(ErrorKind::kUsage, fmt::format("rows: {}; limit: 1 to {}", shape.rows, kLargestRows));
  const uint32_t multiple = shape.ranks * kSquareColsOfTiles;
  if (shape.cols == 0 || shape.cols % multiple != 0)
    throw Error(ErrorKind::kUsage,
                fmt::format("columns: {}; expected a multiple of {}", shape.cols, multiple));
  if (const uint32_t step = weight_cols_step(shape.rows); shape.weight_cols % step != 0)
    throw Error(ErrorKind::kUsage,
                fmt::format("columns of weights: {}; expected a multiple of {}", shape.weight_cols, step));
  if (shape.matrices < 1 || shape.matrices > kMostMatrices)
    throw Error(ErrorKind::kUsage,
                fmt::format("matrices: {}; limit: 1 to {}", shape.matrices, kMostMatrices));
  if (shape.rounds < 1 || shape.rounds >= kNoTag)
    throw Error(ErrorKind::kUsage, fmt::format("rounds: {}; limit: 1 to {}", shape.rounds, kNoTag - 1));
}

// Pages that an SM of the kernel for `rows` rows can load before its inputs are complete: the ring, and in
// kernels of vectors one more in the registers of each consumer warp.
uint32_t pages_held(uint32_t rows) {
  constexpr uint32_t kConsumerWarps = 8;
  for (const KernelTraits& kernel : kernels()) {
    if (kernel.of_ranks && kernel.rows >= rows && (kernel.tile_rows > 0) == has_tiles(rows))
      return kernel.ring_pages + (kernel.tile_rows > 0 ? 0 : kConsumerWarps);
  }
  return 0;
}

}  // namespace

std::string exchange_tensor::weights(uint32_t matrix) {
  return fmt::format("exchange.weights.{}", matrix);
}

uint32_t weight_cols_step(uint32_t rows) {
  return has_tiles(rows) ? kSquareColsOfTiles : kTileDim;
}

Program exchange_program(const ExchangeShape& shape_in, const Machine& machine) {
  ExchangeShape shape = shape_in;
  if (shape.weight_cols == 0) shape.weight_cols = weight_cols_step(shape.rows);
  check(shape);
  return Builder(shape, machine).build();
}

void fill_exchange_state(StateBlock& state) {
  for (uint32_t row = 0; row < state.rows.size(); ++row) {
    state.rows[row] = {.active = 1,
                       .wants_logits = 0,
                       .slot = 0,
                       .token = static_cast<int32_t>(row % kExchangeTokens),
                       .position = row};
  }
  state.control = {.passes_done = 0, .passes_wanted = 1, .last_pass = kKeepRunning, .stopped_by_host = 0};
}

ExchangeRounds exchange_rounds(uint32_t rows) {
  constexpr uint32_t kOfOneTile = 256, kFew = 1024;
  if (rows <= kOfOneTile) return {16, 80};
  return rows <= kFew ? ExchangeRounds{4, 20} : ExchangeRounds{2, 6};
}

uint64_t weight_bytes_of_round(const ExchangeShape& shape) {
  const uint32_t cols = shape.weight_cols > 0 ? shape.weight_cols : weight_cols_step(shape.rows);
  return page_image::bytes(shape.cols, cols);
}

ExchangeShape with_weights(const ExchangeShape& shape_in, const Machine& machine, uint64_t bytes) {
  // Several times the size of a GPU's cache.
  constexpr uint64_t kNotCached = uint64_t{256} << 20;
  ExchangeShape shape = shape_in;
  const uint64_t held = uint64_t{pages_held(shape.rows)} * machine.sms * kPageBytes;
  const uint64_t col_bytes = uint64_t{shape.cols} * size_of(DType::kBF16);
  const uint32_t step = weight_cols_step(shape.rows);
  const uint64_t steps = std::min(bytes, held) / (col_bytes * step);
  shape.weight_cols = static_cast<uint32_t>(std::max<uint64_t>(steps, 1)) * step;
  const uint64_t matrix = page_image::bytes(shape.cols, shape.weight_cols);
  shape.matrices = std::clamp(static_cast<uint32_t>(kNotCached / matrix) + 1, 1U, kMostMatrices);
  return shape;
}

}  // namespace serval
