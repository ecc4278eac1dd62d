#include "models/program_fit.h"

#include <charconv>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>

#include "instructions/isa.h"
#include "models/ranks.h"
#include "vm/base/error.h"

namespace serval {
namespace {

[[noreturn]] void refuse(const Model& model, const std::string& what) {
  throw Error(ErrorKind::kRuntime, fmt::format("program: not compiled from model {}: {}", model.name, what));
}

void require_limits(const StateLimits& limits, const Model& model) {
  if (limits.vocab != static_cast<uint64_t>(model.vocab_size))
    refuse(model, fmt::format("limits.vocab: {}, the model has {}", limits.vocab, model.vocab_size));
  if (limits.max_context < 1 || limits.max_context > static_cast<uint64_t>(model.max_position)) {
    refuse(model,
           fmt::format("limits.max_context: {}; limit: 1 to {}", limits.max_context, model.max_position));
  }
  if (limits.kv_blocks < 1) refuse(model, "limits.kv_blocks: 0; expected at least 1");
}

std::string layout_of(const Tensor& t) {
  return fmt::format("{}, row order {}, head_dim {}", describe(t), static_cast<int>(t.row_order), t.head_dim);
}

// Read from the program's metadata, which is untrusted: with a wrong value, the shapes of tensors differ.
uint32_t tile_rows_of(const Program& program) {
  const auto found = program.metadata.find(kTileRowsMetadata);
  uint32_t rows = 0;
  if (found == program.metadata.end()) return rows;
  const char* end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, rows);
  return error == std::errc() && at == end ? rows : 0;
}

// The limits are those of the program: the graph was made for them.
void require_shape(const ProgramShape& shape, const ProgramShape& expected, const Model& model) {
  if (shape.order != expected.order)
    refuse(model, fmt::format("order: {}, expected {}", name_of(shape.order), name_of(expected.order)));
  const auto check = [&](const char* field, uint32_t found, uint32_t wanted) {
    if (found != wanted) refuse(model, fmt::format("heads.{}: {}, expected {}", field, found, wanted));
  };
  check("head_dim", shape.heads.head_dim, expected.heads.head_dim);
  check("q_heads", shape.heads.q_heads, expected.heads.q_heads);
  check("kv_heads", shape.heads.kv_heads, expected.heads.kv_heads);
}

}  // namespace

Graph graph_of(const Program& program, const Model& model) {
  const StateLimits& limits = program.limits;
  return model.graph({.sms = program.machine.sms,
                      .context = limits.max_context,
                      .kv_blocks = limits.kv_blocks,
                      .rows = limits.rows,
                      .sequences = limits.sequences,
                      .tile_rows = tile_rows_of(program),
                      .tile_order = program.order == Order::kVectorInTileOrder && model.has_tile_order(),
                      .ranks = program.num_devices});
}

void require_fit(const Program& program, const Model& model) {
  const StateLimits& limits = program.limits;
  require_limits(limits, model);
  if (program.num_devices > 1) check_ranks(model, program.num_devices);
  const Graph graph = graph_of(program, model);
  require_shape(program, graph, model);
  using Place = std::pair<std::string_view, uint32_t>;  // name and device
  std::map<Place, const Tensor*> found;
  for (const Tensor& t : program.tensors) found.emplace(Place{t.name, t.device}, &t);
  for (const Tensor& expected : graph.tensors) {
    const std::string name = name_in(program, expected);
    const auto tensor = found.find(Place{expected.name, expected.device});
    if (tensor == found.end()) refuse(model, fmt::format("tensor '{}' is missing", name));
    if (*tensor->second != expected) {
      refuse(model, fmt::format("tensor '{}': {}, expected {}", name, layout_of(*tensor->second),
                                layout_of(expected)));
    }
    found.erase(tensor);
  }
  for (const Tensor& t : program.tensors) {
    if (found.contains(Place{t.name, t.device}))
      refuse(model, fmt::format("tensor '{}': the model has no tensor of this name", name_in(program, t)));
  }
}

}  // namespace serval
