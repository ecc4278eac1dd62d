// serval models: lists the models in Hugging Face's cache and in a folder, and whether they run on this
// machine.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/flags.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "models/checkpoint/host_buffer.h"
#include "models/hub_cache.h"
#include "models/model_files.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval models\n"
    "  serval models path/to/models --json\n";
constexpr double kGigabyte = 1e9;

struct Listed {
  std::string name;                         // the name for -m
  std::shared_ptr<const ModelFiles> files;  // null if they could not be opened
  int64_t bytes = 0;                        // size of the weights in them
  std::string problem = {};                 // why it does not run; empty if it does
};

std::string memory_problem(const Model& model) {
  const auto needed = static_cast<double>(model.weight_bytes());
  const auto available = static_cast<double>(available_host_memory());
  if (needed <= available) return "";
  return fmt::format("its weights take {:.1f} GB of memory; {:.1f} GB are available", needed / kGigabyte,
                     available / kGigabyte);
}

// Opens the files as for loading, without reading any weight.
template <class Find>
Listed listed(std::string name, Find&& find) {
  Listed entry{.name = std::move(name), .files = nullptr};
  try {
    entry.files = open_model_files(find());
    entry.bytes = entry.files->stored_bytes();
    entry.files->weights(NotFinite::kRefused);
    if (entry.files->has_tokenizer()) entry.files->tokenizer();
    entry.problem =
        memory_problem(*entry.files->model()->with_formats(entry.files->stored_formats().formats));
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

// The folder itself, the model directories in it, and the GGUF files in all of these.
std::vector<fs::path> models_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw Error(ErrorKind::kUsage, folder.string() + ": not a directory");
  std::vector<fs::path> folders = {folder}, found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) folders.push_back(entry.path());
  for (const fs::path& each : folders) {
    if (fs::exists(each / "config.json", error)) found.push_back(each);
    for (const fs::path& file : gguf_files_in(each)) found.push_back(file);
  }
  std::ranges::sort(found);
  return found;
}

ordered_json facts_of(const Listed& entry) {
  ordered_json facts = {
      {"name", entry.name}, {"runs_here", entry.problem.empty()}, {"problem", entry.problem}};
  if (!entry.files) return facts;
  const Model& model = *entry.files->model();
  facts.update({{"path", entry.files->path().string()},
                {"format", entry.files->format()},
                {"bytes", entry.bytes},
                {"parameters", model.num_parameters()},
                {"layers", model.num_layers},
                {"hidden_size", model.hidden_size},
                {"heads", model.num_heads},
                {"kv_heads", model.num_kv_heads},
                {"max_context", model.max_position}});
  return facts;
}

std::string lines_of(const Listed& entry) {
  std::string text = entry.name + '\n';
  if (entry.files) {
    const Model& model = *entry.files->model();
    text += fmt::format(
        "  {}, {:.2f} GB: {:.2f} billion parameters, {} layers of {}, {} heads over {}, {} tokens\n",
        entry.files->format(), static_cast<double>(entry.bytes) / kGigabyte,
        static_cast<double>(model.num_parameters()) / kGigabyte, model.num_layers, model.hidden_size,
        model.num_heads, model.num_kv_heads, model.max_position);
  }
  return text +
         (entry.problem.empty() ? "  runs here\n" : fmt::format("  does not run here: {}\n", entry.problem));
}

}  // namespace

int run_models(const Arguments& arguments) {
  std::string folder;
  OutputFlags output;
  FlagSet set(
      "models",
      "Lists the models in Hugging Face's cache and in a folder, and whether they run on this machine's CPU.",
      "[FOLDER] [FLAGS]");
  set.positional("FOLDER", "a directory of models, looked through one level deep",
                 [&](const FlagValue& value) { folder = value.text; });
  output.declare(set, "print a JSON array");
  set.examples(kExamples);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  std::vector<Listed> found;
  for (const std::string& name : hub_cache_names())
    found.push_back(listed(name, [&] { return *find_in_hub_cache(name); }));
  if (!folder.empty())
    for (const fs::path& path : models_in(folder))
      found.push_back(listed(path.string(), [&] { return path; }));
  ordered_json array = ordered_json::array();
  std::string text;
  for (const Listed& entry : found) {
    array.push_back(facts_of(entry));
    text += lines_of(entry);
  }
  if (found.empty()) text = fmt::format("no models in {}\n", hub_cache_directory().string());
  write_stdout(output.json ? pretty(array) : text);
  return 0;
}

}  // namespace serval::cli
