// A scene for each of several ranks, with their tensors next to each other in one bench, as in a program of
// several devices; and the instructions with which the ranks exchange data.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/instructions/scene.h"

namespace serval::testing {

// True if only programs of several devices have the instruction; kernels for one GPU have no code for it.
bool is_of_ranks_alone(Opcode opcode);
// These instructions and others that push, in order of opcode. The operands of a new instruction decide
// whether it is included.
std::vector<Opcode> ops_of_ranks();

// The instances of all ranks in one list, rank by rank.
std::vector<Instruction> joined(const std::vector<std::vector<Instruction>>& of_ranks);

class SceneOfRanks {
 public:
  // `shape` is one rank's share, but hidden and vocab are totals. A rank's slice of `hidden` must be whole
  // units; with tiles of rows, whole groups of 64 columns.
  SceneOfRanks(uint32_t ranks, const Shape& shape, Random& random);

  // Makes a pass of random rows, or of a row at each of these positions, copied to all ranks. If there are
  // tiles, chooses another tile shape.
  void new_pass(Random& random, const std::vector<uint32_t>& positions = {});
  // A rank's instances of one of ops_of_ranks(), with no units if it has nothing to do. Fails the test if
  // there is no such stage.
  Stage stage(Opcode opcode, uint32_t rank) const;
  // The instances of all ranks, rank by rank.
  std::vector<Instruction> whole(Opcode opcode) const;
  // The instances of each rank, in parts of random sizes in a random order.
  std::vector<std::vector<Instruction>> split(Opcode opcode, Random& random) const;

  // The first rank's scene; the others share its state.
  const Scene& lead() const { return scenes_.front(); }
  uint32_t ranks() const { return ranks_; }
  // The rank's tensor that corresponds to a tensor of its scene.
  TensorId on(TensorId of_scene, uint32_t rank) const { return {of_scene.index * ranks_ + rank}; }

  Bench bench;

 private:
  void add_tensors();
  void add_biases(Random& random);
  void share_vocabulary(TensorId table);
  // The scene's operation for the rank, with all rows.
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
