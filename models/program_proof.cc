#include "models/program_proof.h"

#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "instructions/isa.h"
#include "models/program_fit.h"
#include "scheduler/happens_before.h"
#include "scheduler/pass_values.h"
#include "scheduler/report.h"
#include "vm/base/error.h"

namespace serval {
namespace {

class Comparison {
 public:
  Comparison(const Program& program, const Model& model)
      : program_(program),
        model_(model),
        graph_(graph_of(program, model)),
        graph_values_(graph_.tensors, values_),
        program_values_(program.tensors, values_) {}
  std::optional<Violation> run();

 private:
  void visit_graph();
  std::optional<Violation> visit_program();
  std::optional<Violation> compare_contents();
  Violation difference(uint32_t index) const;
  std::string describe_difference(const Instruction& record) const;
  Violation violation(const std::string& message, std::vector<uint32_t> instructions) const;
  const Footprint& footprint_of(const Instruction& instruction);

  const Program& program_;
  const Model& model_;
  const Graph graph_;
  ValueTable values_;
  PassValues graph_values_, program_values_;
  Footprint footprint_;
};

const Footprint& Comparison::footprint_of(const Instruction& instruction) {
  footprint_.clear();
  op_info(instruction.opcode).footprint(instruction, program_, nullptr, footprint_);
  return footprint_;
}

Violation Comparison::violation(const std::string& message, std::vector<uint32_t> instructions) const {
  std::string explanation;
  for (const uint32_t i : instructions)
    explanation += format_instruction(program_, program_.instructions[i]) + "\n";
  return {Rule::kModel, fmt::format("{}: {}", name_of(Rule::kModel), message), std::move(instructions),
          std::move(explanation)};
}

std::optional<Violation> Comparison::run() {
  visit_graph();
  if (auto found = visit_program()) return found;
  return compare_contents();
}

// The graph lists its nodes in an order in which they can run.
void Comparison::visit_graph() {
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (graph_values_.visit(n, graph_.nodes[n], footprint_of(graph_.nodes[n]))) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("model {}: node {} of the graph computes no value", model_.name, n));
    }
  }
}

std::optional<Violation> Comparison::visit_program() {
  const size_t model_computations = values_.computations();
  const HappensBefore hb(program_);
  for (const uint32_t i : hb.order()) {
    const Instruction& record = program_.instructions[i];
    const bool is_valid = !program_values_.visit(i, record, footprint_of(record));
    if (!is_valid || program_values_.computation() >= model_computations) return difference(i);
  }
  return std::nullopt;
}

Violation Comparison::difference(uint32_t index) const {
  return violation(
      fmt::format("{}: {}", where(program_, index), describe_difference(program_.instructions[index])),
      {index});
}

// Compares the record with the graph's instructions of the same operation and layer (tag).
std::string Comparison::describe_difference(const Instruction& record) const {
  const Instruction* in_layer = nullptr;
  const char* operand = nullptr;
  bool is_known = false;
  for (const Instruction& node : graph_.nodes) {
    if (node.opcode != record.opcode) continue;
    is_known = true;
    if (node.tag != record.tag) continue;
    const char* const other = first_difference(program_.tensors, record, graph_.tensors, node);
    if (other == nullptr) return fmt::format("reads other values than in model {}", model_.name);
    if (in_layer == nullptr) {
      in_layer = &node;
      operand = other;
    }
  }
  if (!is_known) return fmt::format("model {} has no such operation", model_.name);
  if (in_layer == nullptr) return fmt::format("model {} has no such operation in this layer", model_.name);
  return fmt::format("{} differs from model {}", operand, model_.name);
}

std::optional<Violation> Comparison::compare_contents() {
  for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.kind != TensorKind::kState && tensor.kind != TensorKind::kKvCache) continue;
    const std::optional<TensorId> here = program_.find_tensor(tensor.name, tensor.device);
    if (here && program_values_.contents().same_as(*here, graph_values_.contents(), {t})) continue;
    return violation(fmt::format("{}: after a pass it holds other values than in model {}",
                                 name_in(program_, tensor), model_.name),
                     {});
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> difference_from(const Program& program, const Model& model) {
  try {
    require_fit(program, model);
  } catch (const Error& error) {
    constexpr std::string_view kPrefix = "program: ";
    std::string_view what = error.what();
    if (what.starts_with(kPrefix)) what.remove_prefix(kPrefix.size());
    return Violation{Rule::kModel, fmt::format("{}: {}", name_of(Rule::kModel), what), {}, {}};
  }
  return Comparison(program, model).run();
}

void require_model(const Program& program, const Model& model) {
  require_fit(program, model);
  if (program.instructions.empty()) return;
  const std::optional<Violation> difference = Comparison(program, model).run();
  if (difference) throw Error(ErrorKind::kRuntime, "program: " + difference->message);
}

}  // namespace serval
