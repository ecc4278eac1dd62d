// Checks of a record's operands against the program's tensor table before anything runs: the handler of a
// record that passes touches only memory inside the tensors it names.
#pragma once

#include <cstdint>
#include <string>

#include "instructions/common/residual.h"
#include "vm/program.h"
#include "vm/reflect.h"

namespace serval {

// Image of a product's input. Each arithmetic class has its own.
constexpr Image product_image(Order order) {
  return adds_as_tiles(order) ? Image::kSlabs : Image::kActivation;
}

// Collects the first error. Its message names the operand, what was found and what was expected.
class OperandCheck {
 public:
  explicit OperandCheck(const Program& program) : program_(program) {}
  const ProgramShape& shape() const { return program_; }
  const std::string& error() const { return error_; }
  bool ok() const { return error_.empty(); }

  // The tensor must exist and have exactly this type, kind and shape, and the image of its kind.
  void tensor(const char* operand, TensorId id, DType dtype, TensorKind kind, uint64_t rows, uint64_t cols);
  // A weight matrix in any format that products support.
  void weights(const char* operand, TensorId id, uint64_t rows, uint64_t cols);
  void require(bool condition, const char* operand, uint64_t found, const char* limit);
  // [first, first + count) must be non-empty and lie within [0, limit).
  void range(const char* operand, uint64_t first, uint64_t count, uint64_t limit);
  // The common limits of model dimensions: non-zero, a multiple of `multiple`, at most kMaxDimension.
  void dimension(const char* operand, uint64_t value, uint64_t multiple);
  // A dimension that is also a limit of the program's state.
  void limit(const char* operand, uint64_t value, uint32_t StateLimits::*limit);
  // The table of the pass's rows.
  void pass_rows(TensorId rows);
  // The program must have attention.
  void heads();
  // The tables of slots and of KV blocks, one entry for each sequence.
  void slots(TensorId slots);
  // The table of logit adjustments (vm/state/adjustments.h), one entry for each slot.
  void adjustments(TensorId adjustments);
  // The table of token masks (vm/state/masks.h), likewise.
  void masks(TensorId masks);
  void block_table(TensorId block_table);
  // A cache of keys or values.
  void kv_cache(const char* operand, TensorId id);
  // One of the records that share planned work; there is one for each of the machine's SMs.
  void records(uint32_t record, uint32_t records);
  // A tensor of the pass's activations: [max_rows, cols].
  void activation(const char* operand, TensorId id, DType dtype, uint64_t cols);
  // An activation of bf16 or fp16 that is a product's input, with the image of the program's order.
  void product_input(const char* operand, TensorId id, uint64_t cols);
  // Likewise, as a product reads it: it may also be e4m3 in programs of tiles.
  void input_of_product(const char* operand, TensorId id, uint64_t cols);
  // An activation of this type with the image of a product's input.
  void image_of_rows(const char* operand, TensorId id, DType dtype, uint64_t cols);
  // The normalised rows of `residual.h`: weighted [max_rows, hidden] of bf16 or fp16 and squares [max_rows,
  // hidden / square_cols] f32.
  void weighted_rows(TensorId weighted, TensorId squares, uint64_t hidden);
  // Likewise, as a product reads them.
  void weighted_input(TensorId weighted, TensorId squares, uint64_t hidden);
  // The squares alone.
  void squares(TensorId squares, uint64_t hidden);
  // An instance's rows among those that may want logits, and a tensor with a row for each of these.
  void rows_of_logits(uint32_t first_row, uint32_t num_rows);
  void logits(const char* operand, TensorId id, uint64_t cols);
  // One of the records among which these rows are divided; at most as many records as rows.
  void records_of_logits(uint32_t record, uint32_t records);
  // The list of likeliest tokens of each of these rows.
  void top_tokens(const char* operand, TensorId id);
  // An instance's rows of the pass.
  void rows_of_pass(uint32_t first_row, uint32_t num_rows);
  // An instance's units, which must be whole groups of columns with one sum of squares.
  void square_units(uint32_t first_unit, uint32_t num_units);
  // Number of K splits of a sum over `cols` columns: more than 1 only in the arithmetic class of tiles.
  void column_parts(uint32_t parts, uint32_t cols);
  // Columns [first, first + count) of `cols`: whole panels of the page image, except for the last.
  void panels(const char* operand, uint32_t first, uint32_t count, uint32_t cols);
  // A finite number that is not negative.
  void factor(const char* operand, float value);
  // … and not zero.
  void positive(const char* operand, float value);
  // A tensor of the pass's activations, [max_rows, cols], on each device: neighbours in the table.
  void peers(const char* operand, PeerTensors tensors, DType dtype, uint64_t cols,
             Image image = Image::kRowMajor);
  // The number of ranks must be the program's number of devices.
  void rank(uint32_t rank, uint32_t ranks);
  // Columns that ranks divide into slices of whole units.
  void slices(uint32_t cols, uint32_t ranks);
  // The device of a tensor that has been checked.
  void on_rank(const char* operand, TensorId id, uint32_t rank);
  void same_rank(const char* operand, TensorId id, TensorId as);
  void another(const char* operand, TensorId id, TensorId than);
  // Rows of the vocabulary [vocab, cols], bf16: all of them, or those of a rank, beginning with row
  // first_unit × 8. They must include the instance's units.
  void vocabulary_rows(const char* operand, TensorId id, uint32_t vocab, uint32_t cols, uint32_t first_unit,
                       uint32_t instance_first_unit, uint32_t instance_units);
  uint64_t tensor_rows(TensorId id) const;

 private:
  void fail(std::string message);
  void bound(const char* operand, uint32_t found, uint32_t limit);
  void tensor(const char* operand, TensorId id, const Tensor& expected);
  uint32_t device_of(TensorId id) const;
  // `wanted` if the tensor has that type.
  DType dtype_or(TensorId id, DType wanted, DType otherwise) const;
  const Program& program_;
  std::string error_;
};

inline constexpr uint64_t kMaxDimension = uint64_t{1} << 24;

}  // namespace serval
