// A random miniature model in memory with a random pass, and every stage of the instruction set for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "instructions/common/column_parts.h"
#include "instructions/common/residual.h"
#include "instructions/common/tile_shape.h"
#include "instructions/isa.h"
#include "instructions/sample/sampler.h"
#include "tests/instructions/random.h"
#include "vm/state/control.h"
#include "vm/state/limits.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"
#include "vm/state/view.h"

namespace serval::testing {

// A byte pattern that is NaN as bf16 and as f32, and out of range as an index.
inline constexpr std::byte kPoison{0xFF};

// Tensors with their memory, and a host that runs one record at a time.
class Bench {
 public:
  TensorId add(std::string name, DType dtype, TensorKind kind, uint64_t rows, uint64_t cols,
               uint32_t head_dim = 0);
  // Position of (row, col) in the tensor's memory, in elements.
  uint64_t element(TensorId tensor, uint64_t row, uint64_t col) const;
  const Tensor& tensor(TensorId id) const { return program.tensors[id.index]; }
  template <class T>
  T* data(TensorId id) {
    return reinterpret_cast<T*>(memory[id.index].data());
  }
  template <class T>
  const T* data(TensorId id) const {
    return reinterpret_cast<const T*>(memory[id.index].data());
  }
  // The number at that position of a bf16 or f32 tensor.
  float number(TensorId id, uint64_t element) const;
  void poison(TensorId id);

  // Fails the test if a record is refused. `after_load` and `after_compute` run between the roles.
  void run(const Instruction& instruction, const std::function<void()>& after_load = {},
           const std::function<void()>& after_compute = {});
  void run(const std::vector<Instruction>& instructions);

  Program program;
  std::vector<std::vector<std::byte>> memory;  // one buffer for each tensor
};

// Computes the tensor that `lm_head` would have written together with these logits, [rows, vocab].
void fill_unit_softmax(Bench& bench, TensorId logits, TensorId unit_softmax);

struct Shape {
  uint32_t hidden, intermediate, head_dim, q_heads, kv_heads, vocab, max_context;
  uint32_t splits;
  float epsilon;
  uint32_t rows = kDefaultRows;            // in a pass
  uint32_t sequences = kDefaultSequences;  // slots; not a multiple of 5
  uint32_t rows_of_sample = 1;             // limit for an instance of `sample`
  uint32_t tile_rows = 0;                  // of an instance's tile; 0: matrices are multiplied with vectors
  bool tile_order = false;                 // vectors of the only row, added in tile order
  DType weights = DType::kBF16;            // of products; columns are whole groups of the type
  bool e4m3_inputs = false;  // products of e4m3 weights in tiles read e4m3; columns are multiples of 128
  Order order() const {
    return tile_order ? Order::kVectorInTileOrder : tile_rows > 0 ? Order::kTile : Order::kVector;
  }
  HeadShape heads() const { return {head_dim, q_heads, kv_heads}; }
  uint32_t logit_rows() const { return serval::logit_rows({.rows = rows, .sequences = sequences}); }
  uint32_t records = 1;  // of planned attention: SMs of the machine
  uint32_t places = 64;  // for its partial results
  std::string text() const;
};

// Limits of a random shape.
struct ShapeLimits {
  uint32_t max_hidden = 512;
  uint32_t max_intermediate = 512;
  uint32_t max_kv_heads = 4;
  uint32_t max_context = 700;
  std::vector<uint32_t> rows =
      {};              // choices for the rows of a pass; empty: 16, which a GPU's kernels support
  bool tiles = false;  // sometimes uses tiles of rows, if `rows` is given
};
Shape random_shape(Random& random, const ShapeLimits& limits);

// All instances of one instruction that a pass needs, for any division into parts. With tiles, a part is a
// tile.
struct Stage {
  Opcode opcode;
  uint32_t units;          // units to divide
  uint32_t most_per_part;  // limit of units in an instance
  std::function<Instruction(uint32_t first, uint32_t count)> make;
  std::string name() const { return op_name(static_cast<uint16_t>(opcode)); }
};
std::vector<Instruction> whole(const Stage& stage);
// Parts of random sizes in a random order.
std::vector<Instruction> split(const Stage& stage, Random& random);

struct UnitRange {
  uint32_t first, count;
};
// A stage with all of the operation's rows and these units. A part is a tile; all row tiles of some units
// come before the next units. If the tile has no rows, an instance may have any of the units.
template <class Op>
Stage stage_of(Op op, UnitRange units, uint32_t Op::*first, uint32_t Op::*count, TileShape tile) {
  if (tile.rows == 0) {
    return {kOpcodeOf<Op>, units.count, std::max(units.count, 1U), [=](uint32_t begin, uint32_t n) mutable {
              op.*first = units.first + begin;
              op.*count = n;
              return make_instruction(op);
            }};
  }
  const uint32_t rows = op.num_rows, row_tiles = (rows + tile.rows - 1) / tile.rows;
  return {kOpcodeOf<Op>, num_tiles(units.count, tile, rows), 1, [=](uint32_t at, uint32_t) mutable {
            const uint32_t before = at / row_tiles * tile.units;
            op.*first = units.first + before;
            op.*count = std::min(tile.units, units.count - before);
            op.first_row = at % row_tiles * tile.rows;
            op.num_rows = std::min(tile.rows, rows - op.first_row);
            return make_instruction(op);
          }};
}

// Fills the elements that these instances write without reading with kPoison.
void poison_outputs(Bench& bench, const std::vector<Instruction>& instances);

struct Scene {
  Scene(const Shape& shape, Random& random);

  // Makes a random pass: one or more active rows at random indices, several for a slot, with garbage in the
  // rows between; shuffled block tables; all inputs of all stages filled.
  void new_pass(Random& random);
  // Makes a pass with exactly these positions, one row and slot each.
  void new_pass(Random& random, const std::vector<uint32_t>& positions);
  // Half of the time the active rows come first, as in the engine; some do not want logits.
  void arrange_rows(Random& random);
  // The instances of every instruction, in the order of the ISA.
  std::vector<Stage> stages() const;
  Stage stage(Opcode opcode) const;
  // Attention and its merge with another number of splits. Adds the tensor of partial results if necessary.
  Stage attention(uint32_t splits);
  // Plans attention's items for `records` records, and sets the machine's SMs to that number.
  void plan(uint32_t records);
  Stage merge(uint32_t splits);
  // Fills the elements that a stage writes without reading with kPoison.
  void poison_outputs(const Stage& stage);

  PassRow* rows() { return bench.data<PassRow>(t.rows); }
  const PassRow* rows() const { return bench.data<const PassRow>(t.rows); }
  SequenceSlot* slots() { return bench.data<SequenceSlot>(t.slots); }
  // Biases, history and mask of the slot.
  std::span<TokenBias> biases(uint32_t slot);
  std::span<int32_t> history(uint32_t slot);  // of max_context tokens
  std::span<uint32_t> mask(uint32_t slot);
  SlotAdjustments adjustments(uint32_t slot);
  std::vector<uint32_t> active_rows() const;
  // The rows that instructions with `logits_only` compute: in this pass, all or those that want logits.
  std::vector<uint32_t> computed_rows() const;
  StateView view() const;
  // The ends of the active rows, and of the rows that want logits.
  uint32_t row_bound() const { return active_rows().back() + 1; }
  uint32_t logit_bound() const;
  // The KV block with token `position` of the row's sequence.
  uint64_t block_of(const PassRow& row, uint32_t position) const;

  Shape shape;
  uint32_t kv_blocks;
  uint32_t logits_only = 0;      // value of their operands
  uint32_t begins = 0;           // for reduce_residual
  uint32_t product_parts = 1;    // K splits of matvec_residual; 1 in programs of vectors
  uint32_t sums_parts = 1;       // K splits of matvec_part,
  uint32_t sums_part = 0;        // and the one that it computes
  uint32_t added_parts = 2;      // for add_parts
  uint32_t projected_parts = 1;  // K splits of project_part and rope_parts
  uint32_t projected_part = 0;   // the split that project_part computes
  Bench bench;
  struct {
    TensorId table, norm, wq, wk, wv, rope, wo, gate, up, head;  // weights and constants
    TensorId plain_wq, plain_wk, plain_wv, q_norm, k_norm;       // of models with norms of Q and K
    TensorId residual, weighted, squares, q, attended, product, logits, unit_softmax;  // activations
    TensorId projected;
    TensorId fp16, codes;                        // of quantise_rows
    TensorId weighted_codes, attended_codes;     // with e4m3_inputs
    TensorId exchange, peer_rows, peer_control;  // of a single rank, which pushes to itself
    TensorId part_sums, parts[kMaxColumnParts];  // sums of K splits
    TensorId projected_sums[kMaxColumnParts];    // of project_part: by the number of splits less 1
    TensorId k_cache, v_cache;
    TensorId places;  // for planned attention
    TensorId rows, slots, adjustments, masks, sampled, top, pooled, control, output, host_stop, block_table,
        items;       // state
    TensorId saved;  // scratch memory of sample
  } t;

 private:
  TensorId partial(uint32_t splits) const { return partials_.at(splits); }
  TensorId add_partial(uint32_t splits);
  Stage attention_stage(uint32_t splits) const;
  Stage merge_stage(uint32_t splits) const;
  Stage planned_attention_stage() const;
  Stage planned_merge_stage() const;
  Stage pool_stage() const;
  Stage quantise_stage() const;
  // Has no units; its tensor is the one for the sums of `projected_parts` splits.
  ProjectPart project_part() const;
  RopeParts rope_parts() const;
  TensorId projected_sums() const { return t.projected_sums[projected_parts - 1]; }
  void fill_weights(Random& random);
  void fill_activations(Random& random);
  void fill_slots(Random& random);
  void place_rows(Random& random, const std::vector<PassRow>& active);
  void fill_block_table(Random& random);
  // Chooses the numbers of K splits, and the split that is multiplied.
  void choose_parts(Random& random);
  // Fills the residual and what its last writer left for the next reader (instructions/common/residual.h).
  void fill_residual(Random& random);

  std::map<uint32_t, TensorId> partials_;  // by number of splits
};

// The nearest bf16 number, ties to even, computed directly from a double.
double round_to_bf16(double value);

// Values of many magnitudes.
std::vector<uint16_t> random_bf16(Random& random, size_t n);

// Σ weights[k] × x[k] in the order that instructions/common/matvec.h defines, one addition after the other.
float sum_in_order(const uint16_t* weights, const uint16_t* x, size_t cols);

// A bound on the error of `operations` consecutive fp32 operations: half an ulp of `magnitude` each, and its
// propagation (Higham's gamma).
double rounding_error(uint32_t operations, double magnitude);
// A bound on |fp32 sum - exact sum| for sums in the order of instructions/common/matvec.h: the longest chain
// of additions, with an error of at most half an ulp each, of terms whose magnitudes sum to `magnitude`.
double sum_error(uint32_t terms, double magnitude);

// The elements that an exact footprint covers, for each tensor of the program.
using Cover = std::vector<std::vector<uint8_t>>;  // [tensor][element in memory order]: times covered
Cover empty_cover(const Bench& bench);
void add_to_cover(const Bench& bench, const Footprint& footprint, bool (*wanted)(Access), Cover& cover);
Footprint footprint_of(const Bench& bench, const Instruction& instruction, const StateView* state);
// The elements that instances may write in this pass.
Cover written_by(const Bench& bench, const StateView& view, const std::vector<Instruction>& instances);

}  // namespace serval::testing
