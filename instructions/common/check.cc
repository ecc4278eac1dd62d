#include "instructions/common/check.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "instructions/common/column_parts.h"
#include "instructions/common/slices.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/units.h"
#include "vm/state/adjustments.h"
#include "vm/state/masks.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {
namespace {

Tensor activation_of(DType dtype, uint64_t rows, uint64_t cols, Image image) {
  return {.name = {},
          .rows = rows,
          .cols = cols,
          .dtype = dtype,
          .kind = TensorKind::kActivation,
          .image = image};
}

}  // namespace

void OperandCheck::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

void OperandCheck::tensor(const char* operand, TensorId id, DType dtype, TensorKind kind, uint64_t rows,
                          uint64_t cols) {
  tensor(
      operand, id,
      {.name = {}, .rows = rows, .cols = cols, .dtype = dtype, .kind = kind, .image = image_of(kind, rows)});
}

void OperandCheck::weights(const char* operand, TensorId id, uint64_t rows, uint64_t cols) {
  const bool in_codes = id.index < program_.tensors.size() && has_codes(program_.tensors[id.index].dtype);
  tensor(operand, id, in_codes ? program_.tensors[id.index].dtype : DType::kBF16, TensorKind::kWeight, rows,
         cols);
}

DType OperandCheck::dtype_or(TensorId id, DType wanted, DType otherwise) const {
  return id.index < program_.tensors.size() && program_.tensors[id.index].dtype == wanted ? wanted
                                                                                          : otherwise;
}

void OperandCheck::tensor(const char* operand, TensorId id, const Tensor& expected) {
  if (id.index >= program_.tensors.size()) {
    fail(fmt::format("{}: tensor {} of {}", operand, id.index, program_.tensors.size()));
    return;
  }
  const Tensor& t = program_.tensors[id.index];
  if (!same_layout(t, expected)) {
    fail(fmt::format("{}: tensor '{}' is {}, expected {}", operand, t.name, describe(t), describe(expected)));
  }
}

void OperandCheck::require(bool condition, const char* operand, uint64_t found, const char* limit) {
  if (!condition) fail(fmt::format("{}: {}, expected {}", operand, found, limit));
}

void OperandCheck::range(const char* operand, uint64_t first, uint64_t count, uint64_t limit) {
  if (count == 0 || first > limit || count > limit - first) {
    fail(fmt::format("{}: [{}, {}); limit: {}", operand, first, first + count, limit));
  }
}

void OperandCheck::dimension(const char* operand, uint64_t value, uint64_t multiple) {
  if (value == 0 || value > kMaxDimension || value % multiple != 0) {
    fail(fmt::format("{}: {}, expected a multiple of {} up to {}", operand, value, multiple, kMaxDimension));
  }
}

void OperandCheck::bound(const char* operand, uint32_t found, uint32_t limit) {
  if (found != limit) fail(fmt::format("{}: {}, the program has {}", operand, found, limit));
}

void OperandCheck::pass_rows(TensorId rows) {
  tensor("rows", rows, DType::kBytes, TensorKind::kState, program_.limits.rows, sizeof(PassRow));
}

void OperandCheck::heads() {
  if (program_.heads.none()) fail("heads: the program has none");
}

void OperandCheck::records(uint32_t record, uint32_t records) {
  bound("records", records, program_.machine.sms);
  range("record", record, 1, records);
}

void OperandCheck::slots(TensorId slots) {
  tensor("slots", slots, DType::kBytes, TensorKind::kState, program_.limits.sequences, sizeof(SequenceSlot));
}

void OperandCheck::adjustments(TensorId adjustments) {
  tensor("adjustments", adjustments, DType::kBytes, TensorKind::kState, program_.limits.sequences,
         adjustment_bytes(program_.limits.max_context));
}

void OperandCheck::masks(TensorId masks) {
  tensor("masks", masks, DType::kI32, TensorKind::kState, program_.limits.sequences,
         mask_pitch(program_.limits.vocab));
}

void OperandCheck::block_table(TensorId block_table) {
  tensor("block_table", block_table, DType::kI32, TensorKind::kState, program_.limits.sequences,
         blocks_for_tokens(program_.limits.max_context));
}

void OperandCheck::kv_cache(const char* operand, TensorId id) {
  tensor(operand, id, DType::kBF16, TensorKind::kKvCache, program_.heads.kv_cols(),
         uint64_t{program_.limits.kv_blocks} * kKvBlockTokens);
}

void OperandCheck::activation(const char* operand, TensorId id, DType dtype, uint64_t cols) {
  tensor(operand, id, activation_of(dtype, program_.limits.rows, cols, Image::kRowMajor));
}

void OperandCheck::product_input(const char* operand, TensorId id, uint64_t cols) {
  // fp16 if the weights are codes.
  image_of_rows(operand, id, dtype_or(id, DType::kF16, DType::kBF16), cols);
}

void OperandCheck::input_of_product(const char* operand, TensorId id, uint64_t cols) {
  const bool in_codes = program_.order == Order::kTile && id.index < program_.tensors.size() &&
                        has_input_scales(program_.tensors[id.index]);
  if (!in_codes) return product_input(operand, id, cols);
  dimension(operand, cols, e4m3_slab_image::kColsOfSlab);
  image_of_rows(operand, id, DType::kE4M3, cols);
}

void OperandCheck::image_of_rows(const char* operand, TensorId id, DType dtype, uint64_t cols) {
  tensor(operand, id, activation_of(dtype, program_.limits.rows, cols, product_image(program_.order)));
}

void OperandCheck::weighted_rows(TensorId weighted, TensorId squares, uint64_t hidden) {
  this->squares(squares, hidden);
  if (!ok()) return;
  product_input("weighted", weighted, hidden);
}

void OperandCheck::weighted_input(TensorId weighted, TensorId squares, uint64_t hidden) {
  this->squares(squares, hidden);
  if (!ok()) return;
  input_of_product("weighted", weighted, hidden);
}

void OperandCheck::squares(TensorId squares, uint64_t hidden) {
  require(hidden % normalised_square_cols(program_.order) == 0, "squares", hidden,
          "residual columns in whole sums of squares");
  activation("squares", squares, DType::kF32, hidden / square_cols(program_.order));
}

void OperandCheck::rows_of_logits(uint32_t first_row, uint32_t num_rows) {
  range("first_row", first_row, num_rows, logit_rows(program_.limits));
}

void OperandCheck::logits(const char* operand, TensorId id, uint64_t cols) {
  tensor(operand, id, DType::kF32, TensorKind::kActivation, logit_rows(program_.limits), cols);
}

void OperandCheck::records_of_logits(uint32_t record, uint32_t records) {
  require(records > 0 && records <= logit_rows(program_.limits), "records", records,
          "1 to the rows that may want logits");
  range("record", record, 1, records);
}

void OperandCheck::top_tokens(const char* operand, TensorId id) {
  tensor(operand, id, DType::kBytes, TensorKind::kState, logit_rows(program_.limits), sizeof(TopTokens));
}

void OperandCheck::rows_of_pass(uint32_t first_row, uint32_t num_rows) {
  range("first_row", first_row, num_rows, program_.limits.rows);
}

void OperandCheck::square_units(uint32_t first_unit, uint32_t num_units) {
  const uint32_t units = square_cols(program_.order) / kUnitRows;
  require(first_unit % units == 0, "first_unit", first_unit, "a multiple of square_cols / 8");
  require(num_units % units == 0, "num_units", num_units, "a multiple of square_cols / 8");
}

void OperandCheck::column_parts(uint32_t parts, uint32_t cols) {
  require(parts >= 1 && parts <= kMaxColumnParts, "parts", parts, "1 to 4");
  require(parts <= page_image::panels(cols), "parts", parts, "no more than panels of 1024 columns");
  require(parts == 1 || adds_as_tiles(program_.order), "parts", parts, "1 in the order of vectors");
}

void OperandCheck::panels(const char* operand, uint32_t first, uint32_t count, uint32_t cols) {
  range(operand, first, count, cols);
  if (!ok()) return;
  require(first % page_image::kPanelCols == 0, operand, first, "a multiple of 1024");
  require(first + count == cols || count % page_image::kPanelCols == 0, operand, first + count,
          "columns up to a multiple of 1024 or to the matrix's last");
}

void OperandCheck::factor(const char* operand, float value) {
  if (!std::isfinite(value) || value < 0) {
    fail(fmt::format("{}: {}, expected a finite number from 0", operand, value));
  }
}

void OperandCheck::positive(const char* operand, float value) {
  factor(operand, value);
  if (value == 0) fail(fmt::format("{}: 0, expected a positive number", operand));
}

void OperandCheck::limit(const char* operand, uint64_t value, uint32_t StateLimits::*limit) {
  dimension(operand, value, 1);
  if (value == program_.limits.*limit) return;
  fail(fmt::format("{}: {}, the program's limit is {}", operand, value, program_.limits.*limit));
}

void OperandCheck::peers(const char* operand, PeerTensors tensors, DType dtype, uint64_t cols, Image image) {
  for (uint32_t device = 0; device < program_.num_devices && ok(); ++device) {
    tensor(operand, tensors.on(device), activation_of(dtype, program_.limits.rows, cols, image));
    on_rank(operand, tensors.on(device), device);
    if (ok() && program_.tensors[tensors.on(device).index].name != program_.tensors[tensors.first].name)
      fail(fmt::format("{}: tensor {}, expected the same name on all devices", operand, tensors.first));
  }
}

void OperandCheck::rank(uint32_t rank, uint32_t ranks) {
  bound("ranks", ranks, program_.num_devices);
  range("rank", rank, 1, ranks);
}

void OperandCheck::slices(uint32_t cols, uint32_t ranks) {
  dimension("out_cols", cols, kTileDim);
  require(ok() && cols % (ranks * kUnitRows) == 0, "out_cols", cols, "a multiple of 8 × ranks");
}

uint32_t OperandCheck::device_of(TensorId id) const {
  return id.index < program_.tensors.size() ? program_.tensors[id.index].device : 0;
}

void OperandCheck::on_rank(const char* operand, TensorId id, uint32_t rank) {
  if (device_of(id) != rank)
    fail(fmt::format("{}: tensor {} is on device {}, expected {}", operand, id.index, device_of(id), rank));
}

void OperandCheck::same_rank(const char* operand, TensorId id, TensorId as) {
  on_rank(operand, id, device_of(as));
}

void OperandCheck::another(const char* operand, TensorId id, TensorId than) {
  if (id == than) fail(fmt::format("{}: tensor {}, expected another", operand, id.index));
}

void OperandCheck::vocabulary_rows(const char* operand, TensorId id, uint32_t vocab, uint32_t cols,
                                   uint32_t first_unit, uint32_t instance_first_unit,
                                   uint32_t instance_units) {
  const uint64_t first = uint64_t{first_unit} * kUnitRows;
  const uint64_t all = first == 0 && program_.num_devices == 1 ? vocab : tensor_rows(id);
  weights(operand, id, all, cols);
  const uint64_t begin = uint64_t{instance_first_unit} * kUnitRows;
  const uint64_t end = std::min<uint64_t>(vocab, begin + uint64_t{instance_units} * kUnitRows);
  require(first <= begin && end <= first + all && first + all <= vocab, "weights_unit", first_unit,
          "the first unit of rows that contain the instance's units");
  if (all == vocab || !ok()) return;
  const VocabularyShare share =
      vocabulary_share(vocab, program_.tensors[id.index].device, program_.num_devices);
  require(first == share.first && end <= share.first + share.count, "weights_unit", first_unit,
          "the first unit of the rank's share, which must contain the instance's units");
}

uint64_t OperandCheck::tensor_rows(TensorId id) const {
  return id.index < program_.tensors.size() ? program_.tensors[id.index].rows : 0;
}

}  // namespace serval
