#include "engine/runtime/weight_formats.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/runtime/options.h"
#include "vm/base/error.h"
#include "vm/program.h"
#include "vm/state/limits.h"

namespace serval {
namespace {

constexpr WeightFormats kLayers = {.layers = DType::kE4M3};
constexpr WeightFormats kLmHead = {.lm_head = DType::kE4M3};

// Why these options' runs have bf16 only; empty if they have codes, too.
std::string obstacle_of(const EngineOptions& options) {
  if (backend_kind(options) == BackendKind::kTorch) return "backend torch has bf16";
  if (options.embeddings.value_or(false)) return "embeddings are computed in bf16";
  if (options.gpus.size() > 1)
    return fmt::format("weights of 8 and 4 bits run on 1 GPU; gpus: {}", options.gpus.size());
  return "";
}

// The type in which the program has the first of the matrices that are e4m3 in the model with these formats.
DType type_in(const Program& program, const Model& model, const WeightFormats& formats) {
  for (const WeightSpec& spec : model.with_formats(formats)->weights()) {
    if (spec.dtype != DType::kE4M3) continue;
    const auto tensor = program.find_tensor(spec.name);
    return tensor ? program.tensors[tensor->index].dtype : DType::kBF16;
  }
  return DType::kBF16;
}

WeightFormats formats_in(const Program& program, const Model& model) {
  return {.layers = type_in(program, model, kLayers), .lm_head = type_in(program, model, kLmHead)};
}

// Changes types that a run cannot take to bf16, and states the reason for these.
void restrict_to_run(const EngineOptions& options, const Model& model, StoredFormats& stored) {
  const std::string obstacle = obstacle_of(options);
  if (!obstacle.empty()) {
    if (has_codes(stored.formats.layers)) stored.layers_reason = obstacle;
    if (has_codes(stored.formats.lm_head)) stored.lm_head_reason = obstacle;
    stored.formats = {};
    return;
  }
  if (options.program.empty()) return;
  const WeightFormats compiled = formats_in(read_program(options.program), model);
  const auto restrict_one = [&](DType& type, DType found, std::string& reason) {
    if (type == found || type == DType::kBF16) return;
    type = found;
    reason = fmt::format("{} is compiled for {}", options.program, name_of(found));
  };
  restrict_one(stored.formats.layers, compiled.layers, stored.layers_reason);
  restrict_one(stored.formats.lm_head, compiled.lm_head, stored.lm_head_reason);
}

std::string notice_of(const std::string& model, const StoredFormats& stored) {
  std::vector<std::string> reasons;
  for (const std::string& reason : {stored.layers_reason, stored.lm_head_reason})
    if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  if (reasons.empty()) return "";
  return fmt::format("{}: stored codes are dequantised to bf16: {}", model, fmt::join(reasons, "; "));
}

// Throws unless the columns of each matrix are whole groups of its type.
void check_columns(const Model& model, const WeightFormats& formats) {
  for (const WeightSpec& spec : model.with_formats(formats)->weights()) {
    if (!is_int4(spec.dtype) || spec.cols % group_of(spec.dtype) == 0) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {}: {} has {} columns; expected a multiple of {}",
                            spec.dtype == formats.layers ? "weights" : "lm_head", name_of(spec.dtype),
                            spec.name, spec.cols, group_of(spec.dtype)));
  }
}

// True if the run multiplies weights of these formats with activations in e4m3. `stored`: the formats that it
// takes from a checkpoint; all bf16 if there is none.
bool takes_e4m3_inputs(const EngineOptions& options, const Model& model, const WeightFormats& formats,
                       const WeightFormats& stored) {
  const std::optional<bool> asked = asked_formats(options).e4m3_inputs;
  if (asked.value_or(false) && formats.layers != DType::kE4M3)
    throw Error(ErrorKind::kUsage,
                fmt::format("activations: 8bit: needs weights in fp8; weights: {}", name_of(formats.layers)));
  if (asked) return *asked;
  const bool wanted = formats.layers == DType::kE4M3 && (stored.layers != DType::kE4M3 || stored.e4m3_inputs);
  const BackendKind backend = backend_kind(options);
  return wanted && (backend == BackendKind::kDevice || backend == BackendKind::kAuto) &&
         !options.batch_invariant && options.program.empty() && model.has_e4m3_inputs();
}

// What the options leave to a checkpoint; nothing of it is read if they leave nothing.
StoredFormats stored_formats_for(const EngineOptions& options, const AskedFormats& asked, const Model& model,
                                 const ModelFiles* files) {
  const bool inputs_are_open = asked.layers == DType::kE4M3 && !asked.e4m3_inputs;
  if (files == nullptr || options.random_weights || (asked.layers && asked.lm_head && !inputs_are_open))
    return {};
  StoredFormats stored = files->stored_formats();
  if (!stored.formats.all_bf16()) restrict_to_run(options, model, stored);
  if (asked.layers) stored.layers_reason.clear();
  if (asked.lm_head) stored.lm_head_reason.clear();
  return stored;
}

}  // namespace

ChosenFormats choose_formats(const EngineOptions& options, const Model& model, const ModelFiles* files) {
  const AskedFormats asked = asked_formats(options);
  check_columns(model, {.layers = asked.layers.value_or(DType::kBF16),
                        .lm_head = asked.lm_head.value_or(DType::kBF16)});
  const StoredFormats stored = stored_formats_for(options, asked, model, files);
  ChosenFormats chosen = {.formats = {.layers = asked.layers.value_or(stored.formats.layers),
                                      .lm_head = asked.lm_head.value_or(stored.formats.lm_head)}};
  chosen.formats.e4m3_inputs = takes_e4m3_inputs(options, model, chosen.formats, stored.formats);
  if (files != nullptr) chosen.notice = notice_of(files->path().string(), stored);
  return chosen;
}

}  // namespace serval
