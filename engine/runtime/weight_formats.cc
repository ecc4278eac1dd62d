#include "engine/runtime/weight_formats.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/runtime/options.h"
#include "vm/program.h"

namespace serval {
namespace {

constexpr WeightFormats kLayers = {.layers = DType::kE4M3};
constexpr WeightFormats kLmHead = {.lm_head = DType::kE4M3};

// Why these options' runs have bf16 only; empty if they have e4m3, too.
std::string obstacle_of(const EngineOptions& options) {
  if (backend_kind(options) == BackendKind::kTorch) return "backend torch has bf16";
  if (options.embeddings.value_or(false)) return "embeddings are computed in bf16";
  if (options.gpus.size() > 1) return fmt::format("e4m3 runs on 1 GPU; gpus: {}", options.gpus.size());
  return "";
}

// The type in which the program has the matrices that are e4m3 in the model with these formats.
DType type_in(const Program& program, const Model& model, const WeightFormats& formats) {
  for (const WeightSpec& spec : model.with_formats(formats)->weights()) {
    if (spec.dtype != DType::kE4M3) continue;
    const auto tensor = program.find_tensor(spec.name);
    return tensor && program.tensors[tensor->index].dtype == DType::kE4M3 ? DType::kE4M3 : DType::kBF16;
  }
  return DType::kBF16;
}

WeightFormats formats_in(const Program& program, const Model& model) {
  return {.layers = type_in(program, model, kLayers), .lm_head = type_in(program, model, kLmHead)};
}

// Changes types that a run cannot take to bf16, and states the reason for these.
void restrict_to_run(const EngineOptions& options, const Model& model, StoredFormats& stored) {
  WeightFormats possible = {.layers = DType::kE4M3, .lm_head = DType::kE4M3};
  std::string obstacle = obstacle_of(options);
  if (!obstacle.empty()) {
    possible = {};
  } else if (!options.program.empty()) {
    possible = formats_in(read_program(options.program), model);
    obstacle = options.program + " is compiled for bf16";
  }
  const auto restrict_one = [&](DType& type, DType most, std::string& reason) {
    if (type == most || type == DType::kBF16) return;
    type = most;
    reason = obstacle;
  };
  restrict_one(stored.formats.layers, possible.layers, stored.layers_reason);
  restrict_one(stored.formats.lm_head, possible.lm_head, stored.lm_head_reason);
}

std::string notice_of(const std::string& model, const StoredFormats& stored) {
  std::vector<std::string> reasons;
  for (const std::string& reason : {stored.layers_reason, stored.lm_head_reason})
    if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  if (reasons.empty()) return "";
  return fmt::format("{}: e4m3 weights are dequantised to bf16: {}", model, fmt::join(reasons, "; "));
}

}  // namespace

ChosenFormats choose_formats(const EngineOptions& options, const Model& model, const ModelFiles* files) {
  const AskedFormats asked = asked_formats(options);
  ChosenFormats chosen = {.formats = {.layers = asked.layers.value_or(DType::kBF16),
                                      .lm_head = asked.lm_head.value_or(DType::kBF16)}};
  if ((asked.layers && asked.lm_head) || files == nullptr || options.random_weights) return chosen;
  StoredFormats stored = files->stored_formats();
  if (!stored.formats.all_bf16()) restrict_to_run(options, model, stored);
  if (asked.layers) stored.layers_reason.clear();
  if (asked.lm_head) stored.lm_head_reason.clear();
  chosen.formats = {.layers = asked.layers.value_or(stored.formats.layers),
                    .lm_head = asked.lm_head.value_or(stored.formats.lm_head)};
  chosen.notice = notice_of(files->path().string(), stored);
  return chosen;
}

}  // namespace serval
