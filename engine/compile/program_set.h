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

// When the programs are compiled.
enum class CompileTime : uint8_t {
  kAtOnce,        // all before the first runs, each on its own thread
  kInBackground,  // one after the other while others run
};

// A program and the largest pass to use it for. `rows` may be less than the program's own limit. Programs
// that multiply vectors and programs that multiply tiles of rows (GEMMs) add in different orders: they belong
// to two arithmetic classes.
struct RowClass {
  uint32_t rows;
  ValidProgram program;
};

// A RowClass before it is compiled.
struct PlannedClass {
  uint32_t rows;
  CompilePlan plan;
};

// A pass with pieces of prompts runs a program of tiles. Any other pass runs a program of vectors if one has
// enough rows. If all programs are of one arithmetic class, every pass runs one of these. Within a class, a
// pass runs the smallest program that holds its rows; the choice does not affect its results. Weights,
// constants, KV caches and the state are found by name, and all programs agree on them. Activations live
// within a pass, and only one pass runs at a time: all activations of one name share memory of the size that
// the largest program needs.
//
// Programs may be compiled while others run: a program's outline (scheduler/compile.h) is known before it is
// compiled and gives the memory that it needs. The class that a pass runs never depends on which programs are
// compiled already.
class ProgramSet {
 public:
  // In any order. Throws Error(kRuntime) if there is none, if two of one arithmetic class have the same size,
  // if one has fewer rows than its class or more than the largest class, or if two programs differ in their
  // limits other than rows or in a tensor that outlives a pass.
  explicit ProgramSet(std::vector<RowClass> classes);
  // Starts to compile them, smallest first.
  explicit ProgramSet(std::vector<PlannedClass> classes);

  size_t size() const { return classes_.size(); }
  // The outline, or the whole program if it was compiled when the set was made.
  const Program& outline(size_t index) const;
  // Returns when the program is compiled. If its compilation has not begun, compiles it on this thread.
  // Throws as compile_plan(), on each call. Thread-safe.
  const Program& program(size_t index) const;
  // Returns whether all programs were compiled when the set was made.
  bool is_complete() const { return queue_ == nullptr; }
  // The class for the most rows if the set is complete, else the class that is compiled first.
  size_t first_compiled() const { return is_complete() ? size() - 1 : 0; }
  uint32_t rows(size_t index) const { return classes_.at(index).rows; }
  // Rows of the largest pass that runs a program of vectors if it reads no prompt; 0: none does.
  uint32_t rows_of_vectors() const;
  // The class for a pass whose last active row is row `row_bound` - 1. Throws Error(kUsage) if none holds it.
  size_t class_of(uint32_t row_bound, bool reads_prompts) const;
  // The outline of the class for the most rows. Its limits are those of the state.
  const Program& widest() const { return outline(size() - 1); }
  std::vector<const Program*> outlines() const;

 private:
  struct Class {
    uint32_t rows;
    bool multiplies_tiles;
    Program outline;                      // set if the queue has the program
    std::optional<ValidProgram> program;  // set if it has not
  };

  void check() const;
  std::optional<size_t> find(uint32_t row_bound, bool tiles) const;

  std::vector<Class> classes_;           // by rows, ascending
  std::unique_ptr<CompileQueue> queue_;  // null: all are compiled
};

// compile_model() for each of `row_classes` and for limits.pass_rows(). Each program is placed for a pass of
// as many rows as its class, except those of up to kDefaultRows: these are placed as `schedule` says, usually
// for one sequence, where every microsecond counts.
ProgramSet compile_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                            const ScheduleOptions& schedule, std::span<const uint32_t> row_classes,
                            CompileTime when = CompileTime::kAtOnce);

}  // namespace serval
