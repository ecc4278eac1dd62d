// Several programs of one model over the same tensors, for passes of different sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/compile/compile_model.h"
#include "scheduler/valid_program.h"

namespace serval {

// A program, and the most rows of the passes that it is meant for: as many as it has, or fewer. Programs that
// multiply with vectors and programs that multiply tiles of rows (GEMMs) add up in different orders: they are
// of two arithmetic classes.
struct RowClass {
  uint32_t rows;
  ValidProgram program;
};

// Immutable. A pass with pieces of prompts runs a program of tiles, any other one of vectors if one has room
// for its rows; where all programs are of one arithmetic class, it runs one of these. Among them it is the
// smallest that holds its rows; which one that is does not show in its results. Weights, constants, KV caches
// and the state are found by name, and every program means the same by them. Activations live within a pass,
// and one pass runs at a time: of one name they are one memory, as large as the largest program needs.
class ProgramSet {
 public:
  // In any order. Throws Error(kRuntime) where there is none, two of one arithmetic class are of one size,
  // one has fewer rows than its class or more than the largest class's, or two programs do not share their
  // limits but for rows, or a tensor that outlives a pass.
  explicit ProgramSet(std::vector<RowClass> classes);

  size_t size() const { return classes_.size(); }
  const Program& program(size_t index) const { return *classes_.at(index).program; }
  uint32_t rows(size_t index) const { return classes_.at(index).rows; }
  // The class of a pass whose last active row is row `row_bound` - 1. Throws Error(kUsage) where none holds
  // it.
  size_t class_of(uint32_t row_bound, bool reads_prompts) const;
  // The class for the most rows. What a state may hold are its program's limits.
  const Program& widest() const { return *classes_.back().program; }
  std::vector<const Program*> programs() const;

 private:
  std::optional<size_t> find(uint32_t row_bound, bool tiles) const;

  std::vector<RowClass> classes_;  // by rows, ascending
};

// compile_model() for each number of `row_classes`, as many rows, and for limits.pass_rows(). Each program is
// placed for a pass of as many rows as its class has, the largest as `schedule` says.
ProgramSet compile_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                            const ScheduleOptions& schedule, std::span<const uint32_t> row_classes);

}  // namespace serval
