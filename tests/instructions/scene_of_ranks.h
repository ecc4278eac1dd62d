// A scene for each of several ranks, whose tensors lie side by side in one bench, as those of a program of
// several devices do; and what the ranks exchange there, instruction by instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/instructions/scene.h"

namespace serval::testing {

// Only programs of several devices have it; kernels for one GPU have no code for it.
bool is_of_ranks_alone(Opcode opcode);
// Those instructions, and others that push. In order of opcode; one that joins the ISA and pushes, as its
// operands say, is among them.
std::vector<Opcode> ops_of_ranks();

// One list of all ranks' instances, rank by rank.
std::vector<Instruction> joined(const std::vector<std::vector<Instruction>>& of_ranks);

class SceneOfRanks {
 public:
  // `shape`: of what one rank has; hidden and vocab are all ranks'. A rank's slice of `hidden` is whole
  // units, where tiles of rows are multiplied whole groups of 64 columns.
  SceneOfRanks(uint32_t ranks, const Shape& shape, Random& random);

  // A pass of random rows, or of one at each of these positions, of which all ranks have a copy; with
  // another shape of tiles, where there are tiles.
  void new_pass(Random& random, const std::vector<uint32_t>& positions = {});
  // A rank's instances of one of ops_of_ranks(), of no units if it has nothing to do. Fails the test if there
  // is no such stage.
  Stage stage(Opcode opcode, uint32_t rank) const;
  // Of all ranks, rank by rank.
  std::vector<Instruction> whole(Opcode opcode) const;
  // Of each rank, in parts of random sizes in a random order.
  std::vector<std::vector<Instruction>> split(Opcode opcode, Random& random) const;

  // The first rank's scene, of which the others have the state.
  const Scene& lead() const { return scenes_.front(); }
  uint32_t ranks() const { return ranks_; }
  // What a rank has of a tensor of its scene.
  TensorId on(TensorId of_scene, uint32_t rank) const { return {of_scene.index * ranks_ + rank}; }

  Bench bench;

 private:
  void add_tensors();
  void add_biases(Random& random);
  void share_vocabulary(TensorId table);
  // The scene's operation as the rank's, of all rows.
  template <class Op>
  Op op_of(uint32_t rank) const;
  template <class Op>
  Stage units_of(const Op& op, UnitRange units, uint32_t tile_units) const;
  Stage reduce_residual(uint32_t rank) const;
  Stage lm_head(uint32_t rank) const;
  Stage rope_parts(uint32_t rank) const;
  Stage push_state(uint32_t rank) const;

  const uint32_t ranks_;
  std::vector<Scene> scenes_;
  TensorId q_bias_, k_bias_, v_bias_;  // the first rank's
  bool has_biases_ = false;            // in this pass
  TileShape tile_{kTileUnits, 0};
};

}  // namespace serval::testing
