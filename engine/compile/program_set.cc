#include "engine/compile/program_set.h"

#include <algorithm>
#include <fmt/format.h>
#include <future>
#include <string>
#include <utility>

#include "instructions/isa.h"
#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kRuntime, "programs of a model: " + what);
}

// Parts of the state of which a program of fewer rows has a smaller tensor over the same memory
// (vm/state/block.h).
bool follows_rows(const Tensor& tensor) {
  return tensor.name == state_tensor::kRows || tensor.name == state_tensor::kSampled ||
         tensor.name == state_tensor::kOutput || tensor.name == state_tensor::kTop ||
         tensor.name == state_tensor::kAttention;
}

// But for its rows, what a state may hold is the same for all programs.
bool share_limits(StateLimits one, const StateLimits& other) {
  one.rows = other.rows;
  return one == other;
}

// What outlives a pass is one thing to all programs.
void check_shared_tensors(const Program& one, const Program& other) {
  for (const Tensor& tensor : other.tensors) {
    const auto found = one.find_tensor(tensor.name, tensor.device);
    if (!found) continue;
    const Tensor& same = one.tensors[found->index];
    const bool may_differ = tensor.kind == TensorKind::kActivation || follows_rows(tensor);
    if (same.kind != tensor.kind || (!may_differ && same != tensor))
      fail(fmt::format("tensor '{}' is not the same in two of them", tensor.name));
  }
}

}  // namespace

ProgramSet::ProgramSet(std::vector<RowClass> classes) : classes_(std::move(classes)) {
  if (classes_.empty()) fail("there is none");
  std::sort(classes_.begin(), classes_.end(),
            [](const RowClass& a, const RowClass& b) { return a.rows < b.rows; });
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].rows > program(i).limits.rows)
      fail(fmt::format("a program of {} rows is for {}", program(i).limits.rows, classes_[i].rows));
    if (program(i).limits.rows > widest().limits.rows) fail("the one for most rows has not the most");
  }
  for (size_t i = 1; i < classes_.size(); ++i) {
    if (!share_limits(program(i).limits, program(i - 1).limits)) fail("their limits differ");
    for (size_t before = 0; before < i; ++before) {
      if (classes_[before].rows == classes_[i].rows &&
          multiplies_tiles(program(before)) == multiplies_tiles(program(i)))
        fail(fmt::format("two are for {} rows", classes_[i].rows));
      check_shared_tensors(program(before), program(i));
    }
  }
}

std::optional<size_t> ProgramSet::find(uint32_t row_bound, bool tiles) const {
  for (size_t i = 0; i < size(); ++i) {
    if (rows(i) >= row_bound && multiplies_tiles(program(i)) == tiles) return i;
  }
  return std::nullopt;
}

size_t ProgramSet::class_of(uint32_t row_bound, bool reads_prompts) const {
  if (const auto wanted = find(row_bound, reads_prompts)) return *wanted;
  if (const auto other = find(row_bound, !reads_prompts)) return *other;
  throw Error(ErrorKind::kUsage, fmt::format("pass: {} rows; limit: {}", row_bound, classes_.back().rows));
}

ProgramSet compile_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                            const ScheduleOptions& schedule, std::span<const uint32_t> row_classes) {
  const uint32_t most = limits.pass_rows();
  for (const uint32_t rows : row_classes) {
    if (rows == 0 || rows >= most)
      throw Error(ErrorKind::kUsage, fmt::format("row class: {}; limit: 1 to {}", rows, most - 1));
  }
  // The one for most rows takes as long as all others together.
  std::vector<std::future<RowClass>> others;
  for (const uint32_t rows : row_classes) {
    others.push_back(std::async(std::launch::async, [&, rows]() -> RowClass {
      ProgramLimits limits_of_class = limits;
      limits_of_class.rows = rows;
      ScheduleOptions of_class = schedule;
      of_class.pass.rows = rows;
      return {rows, compile_model(model, machine, limits_of_class, of_class)};
    }));
  }
  std::vector<RowClass> classes;
  classes.push_back({most, compile_model(model, machine, limits, schedule)});
  for (std::future<RowClass>& other : others) classes.push_back(other.get());
  return ProgramSet(std::move(classes));
}

std::vector<const Program*> ProgramSet::programs() const {
  std::vector<const Program*> all;
  for (const RowClass& row_class : classes_) all.push_back(&*row_class.program);
  return all;
}

}  // namespace serval
