#include "engine/compile/program_set.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
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

// Parts of the state for which a program with fewer rows has a smaller tensor in the same memory
// (vm/state/block.h).
bool follows_rows(const Tensor& tensor) {
  return tensor.name == state_tensor::kRows || tensor.name == state_tensor::kSampled ||
         tensor.name == state_tensor::kOutput || tensor.name == state_tensor::kTop ||
         tensor.name == state_tensor::kAttention;
}

// All programs must have the same limits except for rows.
bool share_limits(StateLimits one, const StateLimits& other) {
  one.rows = other.rows;
  return one == other;
}

// All programs must agree on tensors that outlive a pass.
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

template <class Class>
void sort_by_rows(std::vector<Class>& classes) {
  std::ranges::sort(classes, {}, &Class::rows);
}

}  // namespace

ProgramSet::ProgramSet(std::vector<RowClass> classes) {
  sort_by_rows(classes);
  for (RowClass& c : classes) {
    const bool tiles = c.program->order == Order::kTile;
    classes_.push_back({c.rows, tiles, {}, std::move(c.program)});
  }
  check();
}

ProgramSet::ProgramSet(std::vector<PlannedClass> classes) {
  sort_by_rows(classes);
  std::vector<CompileQueue::Job> jobs;
  for (PlannedClass& c : classes) {
    const Graph& graph = c.plan.graph;
    classes_.push_back({c.rows, graph.order == Order::kTile,
                        outline_of(graph, c.plan.machine, c.plan.options.queue_kind), std::nullopt});
    jobs.emplace_back(
        [plan = std::move(c.plan)](const std::stop_token& stop) { return compile_plan(plan, stop); });
  }
  check();
  queue_ = std::make_unique<CompileQueue>(std::move(jobs));
}

void ProgramSet::check() const {
  if (classes_.empty()) fail("there is none");
  for (size_t i = 0; i < size(); ++i) {
    if (rows(i) > outline(i).limits.rows)
      fail(fmt::format("a program of {} rows is for {}", outline(i).limits.rows, rows(i)));
    if (outline(i).limits.rows > widest().limits.rows) fail("the one for most rows has not the most");
  }
  for (size_t i = 1; i < size(); ++i) {
    if (!share_limits(outline(i).limits, outline(i - 1).limits)) fail("their limits differ");
    if (outline(i).heads != outline(i - 1).heads) fail("their heads differ");
    for (size_t before = 0; before < i; ++before) {
      if (rows(before) == rows(i) && classes_[before].multiplies_tiles == classes_[i].multiplies_tiles)
        fail(fmt::format("two are for {} rows", rows(i)));
      check_shared_tensors(outline(before), outline(i));
    }
  }
}

const Program& ProgramSet::outline(size_t index) const {
  const Class& c = classes_.at(index);
  return c.program ? **c.program : c.outline;
}

const Program& ProgramSet::program(size_t index) const {
  const Class& c = classes_.at(index);
  return c.program ? **c.program : queue_->program(index);
}

std::optional<size_t> ProgramSet::find(uint32_t row_bound, bool tiles) const {
  for (size_t i = 0; i < size(); ++i) {
    if (rows(i) >= row_bound && classes_[i].multiplies_tiles == tiles) return i;
  }
  return std::nullopt;
}

uint32_t ProgramSet::rows_of_vectors() const {
  uint32_t most = 0;
  for (const Class& c : classes_) most = std::max(most, c.multiplies_tiles ? 0 : c.rows);
  return most;
}

size_t ProgramSet::class_of(uint32_t row_bound, bool reads_prompts) const {
  if (const auto wanted = find(row_bound, reads_prompts)) return *wanted;
  if (const auto other = find(row_bound, !reads_prompts)) return *other;
  throw Error(ErrorKind::kUsage, fmt::format("pass: {} rows; limit: {}", row_bound, classes_.back().rows));
}

namespace {

struct ClassToCompile {
  uint32_t rows;
  ProgramLimits limits;
  ScheduleOptions schedule;
};

// The program for the most rows comes first.
std::vector<ClassToCompile> classes_to_compile(const ProgramLimits& limits, const ScheduleOptions& schedule,
                                               std::span<const uint32_t> row_classes) {
  const uint32_t most = limits.pass_rows();
  std::vector<ClassToCompile> classes;
  const auto add = [&](uint32_t rows) {
    ClassToCompile& added = classes.emplace_back(ClassToCompile{rows, limits, schedule});
    added.limits.rows = rows;
    if (rows > kDefaultRows) added.schedule.pass.rows = rows;
  };
  add(most);
  for (const uint32_t rows : row_classes) {
    if (rows == 0 || rows >= most)
      throw Error(ErrorKind::kUsage, fmt::format("row class: {}; limit: 1 to {}", rows, most - 1));
    add(rows);
  }
  return classes;
}

}  // namespace

ProgramSet compile_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                            const ScheduleOptions& schedule, std::span<const uint32_t> row_classes,
                            CompileTime when) {
  const std::vector<ClassToCompile> classes = classes_to_compile(limits, schedule, row_classes);
  if (when == CompileTime::kInBackground) {
    std::vector<PlannedClass> planned;
    for (const ClassToCompile& c : classes)
      planned.push_back({c.rows, plan_program(model, machine, c.limits, c.schedule)});
    return ProgramSet(std::move(planned));
  }
  const auto compiled = [&](const ClassToCompile& c) -> RowClass {
    return {c.rows, compile_model(model, machine, c.limits, c.schedule)};
  };
  // The program for the most rows takes as long as all others together.
  std::vector<std::future<RowClass>> others;
  for (const ClassToCompile& c : std::span(classes).subspan(1))
    others.push_back(std::async(std::launch::async, compiled, std::cref(c)));
  std::vector<RowClass> all;
  all.push_back(compiled(classes.front()));
  for (std::future<RowClass>& other : others) all.push_back(other.get());
  return ProgramSet(std::move(all));
}

std::vector<const Program*> ProgramSet::outlines() const {
  std::vector<const Program*> all;
  for (size_t i = 0; i < size(); ++i) all.push_back(&outline(i));
  return all;
}

}  // namespace serval
