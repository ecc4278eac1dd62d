#include "engine/runtime/model_source.h"

#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/runtime/options.h"
#include "engine/runtime/weight_formats.h"
#include "models/gguf/gguf_file.h"
#include "models/hub_cache.h"
#include "models/presets.h"
#include "vm/base/error.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAssetsVariable = "SERVAL_ASSETS";
constexpr const char* kBundledName = "serval-stories";

bool is_model_directory(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "config.json", ignored);
}

fs::path executable_directory() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : executable.parent_path();
}

std::vector<fs::path> bundled_places() {
  if (const char* assets = std::getenv(kAssetsVariable); assets != nullptr && *assets != '\0') {
    return {fs::path(assets) / kBundledName};
  }
  return {(executable_directory() / "../share/serval" / kBundledName).lexically_normal(),
          fs::path(SERVAL_INSTALLED_ASSETS) / kBundledName, fs::path(SERVAL_SOURCE_ASSETS) / kBundledName};
}

ModelSource model_in(const fs::path& path) {
  auto files = open_model_files(path);
  return {files->model(), files};
}

// How embeddings are made; nullopt if the options, or the files where the options do not say, ask for none.
std::optional<PoolingConfig> pooling_of(const EngineOptions& options, const ModelFiles* files) {
  if (!options.embeddings.value_or(true)) return std::nullopt;
  const auto named = enumerator_named<Pooling>(options.pooling);
  std::optional<PoolingConfig> config;
  if (files != nullptr) config = files->pooling();
  if (!config && !options.embeddings) return std::nullopt;
  if (!config) config.emplace();
  if (named) config->pooling = *named;
  return config;
}

[[noreturn]] void refuse_missing(const std::string& hub_name) {
  std::string command = "hf download " + hub_name;
  if (const size_t at = command.find('@'); at != std::string::npos) command.replace(at, 1, " --revision ");
  throw Error(ErrorKind::kRuntime, fmt::format("model {}: neither a directory nor in {}; to fetch it: {}",
                                               hub_name, hub_cache_directory().string(), command));
}

}  // namespace

fs::path bundled_model_directory() {
  std::string tried;
  for (const fs::path& place : bundled_places()) {
    if (is_model_directory(place)) return place;
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  throw Error(ErrorKind::kRuntime,
              fmt::format("bundled model: not found in {}; {} names the directory that holds {}", tried,
                          kAssetsVariable, kBundledName));
}

ModelSource find_model(const std::string& model) {
  if (model.empty()) return model_in(bundled_model_directory());
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return model_in(model);
  if (auto preset = find_preset(model)) return {std::move(preset), nullptr};
  if (looks_like_gguf(model)) return model_in(model);
  if (fs::exists(model, ignored))
    throw Error(ErrorKind::kRuntime, model + ": neither a directory nor a GGUF file");
  if (const auto cached = find_in_hub_cache(model)) return model_in(*cached);
  if (is_hub_name(model)) refuse_missing(model);
  throw Error(ErrorKind::kRuntime, fmt::format("model {}: neither a directory, a GGUF file nor a preset ({})",
                                               model, fmt::join(preset_names(), ", ")));
}

ModelSource find_model(const EngineOptions& asked) {
  ModelSource source = find_model(asked.model);
  source.pooling = pooling_of(asked, source.files.get());
  EngineOptions options = asked;
  options.embeddings = source.pooling.has_value();
  if (source.pooling) {
    check_embeddings(asked);
    source.model = source.model->pooling();
  }
  ChosenFormats chosen = choose_formats(options, *source.model, source.files.get());
  if (!chosen.formats.all_bf16()) source.model = source.model->with_formats(chosen.formats);
  source.notice = std::move(chosen.notice);
  return source;
}

}  // namespace serval
