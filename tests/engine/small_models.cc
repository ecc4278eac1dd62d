#include "tests/engine/small_models.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "engine/runtime/model_source.h"
#include "models/checkpoint/checkpoint_writer.h"
#include "models/checkpoint/weight_source.h"
#include "models/model_files.h"

namespace serval::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& file) {
  return json::parse(std::ifstream(file));
}
void write_json(const fs::path& file, const json& content) {
  std::ofstream(file) << content;
}

void write_weights(const fs::path& directory, const WeightSource& source) {
  std::vector<PlannedTensor> planned;
  for (const WeightSpec& spec : source.specs()) {
    const bool is_matrix = spec.kind == WeightKind::kMatrix;
    planned.push_back({spec.name, StoredType::kBF16,
                       is_matrix ? std::vector{spec.rows, spec.cols} : std::vector{spec.cols}});
  }
  CheckpointWriter writer(directory, planned, int64_t{1} << 30);
  for (size_t tensor = 0; tensor < planned.size(); ++tensor) {
    std::vector<uint16_t> values(static_cast<size_t>(planned[tensor].elements()));
    source.read(tensor, 0, values);
    writer.begin_tensor(StoredType::kBF16);
    writer.write(std::as_bytes(std::span(values)));
  }
  writer.finish();
}

// The bundled model's files, with these changes of its configuration and without weights.
std::shared_ptr<const Model> write_configuration(const fs::path& directory, const json& changes) {
  const fs::path bundled = bundled_model_directory();
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    fs::copy_file(bundled / file, directory / file);
  json config = read_json(bundled / "config.json");
  config.update(changes);
  write_json(directory / "config.json", config);
  return open_model_files(directory)->model();
}

}  // namespace

void write_random_model(const fs::path& directory, const RandomModel& random) {
  const auto model = write_configuration(directory, {{"hidden_size", 64},
                                                     {"intermediate_size", 64},
                                                     {"num_hidden_layers", 1},
                                                     {"num_attention_heads", 1},
                                                     {"num_key_value_heads", 1},
                                                     {"max_position_embeddings", random.context},
                                                     {"vocab_size", random.vocabulary}});
  write_weights(directory, *make_random_weights(*model, random.seed));
}

void write_first_layers(const fs::path& directory, int layers) {
  const auto model = write_configuration(directory, {{"num_hidden_layers", layers}});
  write_weights(directory, *open_checkpoint_weights(bundled_model_directory(), *model));
}

void exchange_tokens(const fs::path& directory, int first, int second) {
  json tokenizer = read_json(directory / "tokenizer.json");
  json& vocabulary = tokenizer["model"]["vocab"];
  for (auto& [text, id] : vocabulary.items()) {
    if (id == first) {
      id = second;
    } else if (id == second) {
      id = first;
    }
  }
  write_json(directory / "tokenizer.json", tokenizer);
}

}  // namespace serval::testing
