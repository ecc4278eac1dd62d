// Several programs of one model over the same tensors, for passes of different sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/compile/compile_model.h"
#include "engine/compile/compile_queue.h"
#include "scheduler/valid_program.h"

namespace serval {

// When several programs are compiled.
enum class CompileTime : uint8_t {
  kAtOnce,        // all before the first runs, each on a thread of its own
  kInBackground,  // one after the other while others run
};

// A program, and the most rows of the passes that it is meant for: as many as it has, or fewer. Programs that
// multiply with vectors and programs that multiply tiles of rows (GEMMs) add up in different orders: they are
// of two arithmetic classes.
struct RowClass {
  uint32_t rows;
  ValidProgram program;
};

// The same before it is compiled.
struct PlannedClass {
  uint32_t rows;
  CompilePlan plan;
};

// A pass with pieces of prompts runs a program of tiles, any other one of vectors if one has room
// for its rows; where all programs are of one arithmetic class, it runs one of these. Among them it is the
// smallest that holds its rows; which one that is does not show in its results. Weights, constants, KV caches
// and the state are found by name, and every program means the same by them. Activations live within a pass,
// and one pass runs at a time: of one name they are one memory, as large as the largest program needs.
//
// Programs may be compiled while others run: what is known of each without, its outline
// (scheduler/compile.h), says what memory they need. Which class a pass runs never depends on what is
// compiled by then.
class ProgramSet {
 public:
  // In any order. Throws Error(kRuntime) where there is none, two of one arithmetic class are of one size,
  // one has fewer rows than its class or more than the largest class's, or two programs do not share their
  // limits but for rows, or a tensor that outlives a pass.
  explicit ProgramSet(std::vector<RowClass> classes);
  // Begins to compile them, those for few rows first.
  explicit ProgramSet(std::vector<PlannedClass> classes);

  size_t size() const { return classes_.size(); }
  // At least its outline; where it was compiled when the set was made, the program.
  const Program& outline(size_t index) const;
  // Returns when it is compiled: one with which nothing has begun yet is compiled on this thread. Throws as
  // compile_plan(), each time. Thread-safe.
  const Program& program(size_t index) const;
  // Whether each was compiled when the set was made.
  bool is_complete() const { return queue_ == nullptr; }
  // Of a set that is complete the class for the most rows, else the one that is compiled first.
  size_t first_compiled() const { return is_complete() ? size() - 1 : 0; }
  uint32_t rows(size_t index) const { return classes_.at(index).rows; }
  // The class of a pass whose last active row is row `row_bound` - 1. Throws Error(kUsage) where none holds
  // it.
  size_t class_of(uint32_t row_bound, bool reads_prompts) const;
  // The outline of the class for the most rows. What a state may hold are its limits.
  const Program& widest() const { return outline(size() - 1); }
  std::vector<const Program*> outlines() const;

 private:
  struct Class {
    uint32_t rows;
    bool multiplies_tiles;
    Program outline;                      // where the program is the queue's
    std::optional<ValidProgram> program;  // where it is not
  };

  void check() const;
  std::optional<size_t> find(uint32_t row_bound, bool tiles) const;

  std::vector<Class> classes_;           // by rows, ascending
  std::unique_ptr<CompileQueue> queue_;  // null: all are compiled
};

// compile_model() for each number of `row_classes`, as many rows, and for limits.pass_rows(). Each program is
// placed for a pass of as many rows as its class has, but for those of up to kDefaultRows: as `schedule`
// says, for one sequence as a rule, where every microsecond counts.
ProgramSet compile_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                            const ScheduleOptions& schedule, std::span<const uint32_t> row_classes,
                            CompileTime when = CompileTime::kAtOnce);

}  // namespace serval
