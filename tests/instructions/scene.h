// A random miniature model in memory with a random pass over it, and every stage of the instruction set on
// them.
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
#include "vm/state/control.h"
#include "vm/state/limits.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"
#include "vm/state/view.h"

namespace serval::testing {

// SplitMix64: the same numbers with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(bits() % n); }
  uint32_t between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }
  double real(double low, double high);
  bool chance(double probability) { return real(0, 1) < probability; }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(static_cast<uint32_t>(from.size()))];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(static_cast<uint32_t>(i))]);
  }

 private:
  uint64_t state_;
};

// A byte pattern that is a NaN as bf16 and as f32, and out of range as an index.
inline constexpr std::byte kPoison{0xFF};

// Tensors with memory behind them, and a host that runs one record at a time.
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
  // The number at that position, of a bf16 or f32 tensor.
  float number(TensorId id, uint64_t element) const;
  void poison(TensorId id);

  // Fails the test if a record is refused. The functions run between the roles.
  void run(const Instruction& instruction, const std::function<void()>& after_load = {},
           const std::function<void()>& after_compute = {});
  void run(const std::vector<Instruction>& instructions);

  Program program;
  std::vector<std::vector<std::byte>> memory;  // one buffer a tensor
};

// What `lm_head` would have left beside these logits, [rows, vocab].
void fill_unit_softmax(Bench& bench, TensorId logits, TensorId unit_softmax);

struct Shape {
  uint32_t hidden, intermediate, head_dim, q_heads, kv_heads, vocab, max_context;
  uint32_t splits;
  float epsilon;
  uint32_t rows = kDefaultRows;            // of a pass
  uint32_t sequences = kDefaultSequences;  // slots; no multiple of 5
  uint32_t rows_of_sample = 1;             // that an instance of `sample` may take
  uint32_t tile_rows =
      0;  // of an instance, where matrices are multiplied with tiles of rows; 0: with vectors
  bool tile_order = false;  // vectors of the only row, added up in the order of tiles
  uint32_t square_cols() const {
    return tile_order ? kSquareColsInTileOrder : tile_rows > 0 ? kSquareColsOfGemm : kSquareColsOfMatvec;
  }
  uint32_t logit_rows() const { return serval::logit_rows({.rows = rows, .sequences = sequences}); }
  uint32_t records = 1;  // of planned attention: SMs of the machine
  uint32_t places = 64;  // of its partial results
  std::string text() const;
};

// What a random shape may be.
struct ShapeLimits {
  uint32_t max_hidden = 512;
  uint32_t max_intermediate = 512;
  uint32_t max_kv_heads = 4;
  uint32_t max_context = 700;
  std::vector<uint32_t> rows = {};  // of a pass: one of these; none: 16, which a GPU's kernels take
  bool tiles = false;               // now and then tiles of rows, if `rows` are given
};
Shape random_shape(Random& random, const ShapeLimits& limits);

// All instances of one instruction that a pass needs, however it is divided. Of tiles, a part is one.
struct Stage {
  Opcode opcode;
  uint32_t units;          // what there is to divide
  uint32_t most_per_part;  // units an instance may take
  std::function<Instruction(uint32_t first, uint32_t count)> make;
  std::string name() const { return op_name(static_cast<uint16_t>(opcode)); }
};
std::vector<Instruction> whole(const Stage& stage);
// Parts of random sizes in a random order.
std::vector<Instruction> split(const Stage& stage, Random& random);

struct UnitRange {
  uint32_t first, count;
};
// Of all of the operation's rows and these units. A part is a tile, the rows of its units one after the
// other; with tiles of no rows, an instance has any of the units.
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

// Fills what these instances only write with kPoison.
void poison_outputs(Bench& bench, const std::vector<Instruction>& instances);

struct Scene {
  Scene(const Shape& shape, Random& random);

  // One to all rows active at random indices, several to a slot, with whatever lies in the rows between;
  // block tables shuffled; every input of every stage filled.
  void new_pass(Random& random);
  // The same with exactly these positions, one row and slot each.
  void new_pass(Random& random, const std::vector<uint32_t>& positions);
  // Half of the time the active rows come first, as the engine places them; some want no logits.
  void arrange_rows(Random& random);
  // The instances of every instruction, in the order of the ISA.
  std::vector<Stage> stages() const;
  Stage stage(Opcode opcode) const;
  // Attention and its merge with another number of splits; adds the tensor of partial results if need be.
  Stage attention(uint32_t splits);
  // Plans attention's items anew for so many records, and so for that machine.
  void plan(uint32_t records);
  Stage merge(uint32_t splits);
  // Fills what a stage only writes with kPoison.
  void poison_outputs(const Stage& stage);

  PassRow* rows() { return bench.data<PassRow>(t.rows); }
  const PassRow* rows() const { return bench.data<const PassRow>(t.rows); }
  SequenceSlot* slots() { return bench.data<SequenceSlot>(t.slots); }
  // What the slot has beside it.
  std::span<TokenBias> biases(uint32_t slot);
  std::span<int32_t> history(uint32_t slot);  // of max_context tokens
  std::span<uint32_t> mask(uint32_t slot);
  SlotAdjustments adjustments(uint32_t slot);
  std::vector<uint32_t> active_rows() const;
  // Those of the instructions that may leave out rows of which no logits are wanted: with this pass, all or
  // some.
  std::vector<uint32_t> computed_rows() const;
  StateView view() const;
  // Rows from these on are not active, or want no logits.
  uint32_t row_bound() const { return active_rows().back() + 1; }
  uint32_t logit_bound() const;
  // The KV block that holds token `position` of the row's sequence.
  uint64_t block_of(const PassRow& row, uint32_t position) const;

  Shape shape;
  uint32_t kv_blocks;
  uint32_t logits_only = 0;      // as in their operands
  uint32_t begins = 0;           // of reduce_residual
  uint32_t product_parts = 1;    // of the columns of matvec_residual; 1 in programs of vectors
  uint32_t sums_parts = 1;       // of the columns of matvec_part,
  uint32_t sums_part = 0;        // of which it has this one
  uint32_t added_parts = 2;      // of add_parts
  uint32_t projected_parts = 1;  // of the columns of project_part, and of rope_parts
  uint32_t projected_part = 0;   // of which project_part has this one
  Bench bench;
  struct {
    TensorId table, norm, wq, wk, wv, rope, wo, gate, up, head;  // weights and constants
    TensorId plain_wq, plain_wk, plain_wv, q_norm, k_norm;       // of models with norms of Q and K
    TensorId residual, weighted, squares, q, attended, product, logits, unit_softmax;  // activations
    TensorId projected;
    TensorId exchange, peer_rows, peer_control;  // of ranks: of one, which pushes to itself
    TensorId part_sums, parts[kMaxColumnParts];  // of parts of columns
    TensorId projected_sums[kMaxColumnParts];    // of project_part: by the number of parts less 1
    TensorId k_cache, v_cache;
    TensorId places;  // of planned attention
    TensorId rows, slots, adjustments, masks, sampled, top, control, output, host_stop, block_table,
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
  // Of no units; the tensor of the sums of as many parts.
  ProjectPart project_part() const;
  RopeParts rope_parts() const;
  TensorId projected_sums() const { return t.projected_sums[projected_parts - 1]; }
  void fill_weights(Random& random);
  void fill_activations(Random& random);
  void fill_slots(Random& random);
  void place_rows(Random& random, const std::vector<PassRow>& active);
  void fill_block_table(Random& random);
  // How many parts columns are cut into, and which one is multiplied.
  void choose_parts(Random& random);
  // The residual, and what its last writer left for whoever reads it next (instructions/common/residual.h).
  void fill_residual(Random& random);

  std::map<uint32_t, TensorId> partials_;  // by number of splits
};

// The nearest bf16 number, ties to even, straight from a double.
double round_to_bf16(double value);

// Values of many magnitudes.
std::vector<uint16_t> random_bf16(Random& random, size_t n);

// Σ weights[k] × x[k] in the order that instructions/common/matvec.h promises, one addition after the other.
float sum_in_order(const uint16_t* weights, const uint16_t* x, size_t cols);

// A bound on what `operations` fp32 operations, one after the other, may be off by: half an ulp of
// `magnitude` each, and what follows from that (Higham's gamma).
double rounding_error(uint32_t operations, double magnitude);
// A bound on |fp32 sum - exact sum| for sums in the order of instructions/common/matvec.h: the longest chain
// of additions, each off by half an ulp at most, over terms whose magnitudes add up to `magnitude`.
double sum_error(uint32_t terms, double magnitude);

// What an exact footprint covers, element by element, for each tensor of the program.
using Cover = std::vector<std::vector<uint8_t>>;  // [tensor][element in memory order]: times covered
Cover empty_cover(const Bench& bench);
void add_to_cover(const Bench& bench, const Footprint& footprint, bool (*wanted)(Access), Cover& cover);
Footprint footprint_of(const Instruction& instruction, const StateView* state);
// What instances may write, given the pass.
Cover written_by(const Bench& bench, const StateView& view, const std::vector<Instruction>& instances);

}  // namespace serval::testing
