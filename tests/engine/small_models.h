// Model directories with the bundled model's vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>

namespace serval::testing {

struct RandomModel {
  uint64_t seed = 1;
  int context = 2048;
  int vocabulary = 3072;  // rows of its embedding
};
// Writes a model of one layer.
void write_random_model(const std::filesystem::path& directory, const RandomModel& random);
// Writes the bundled model without its last layers: it often draws the bundled model's tokens, not always.
void write_first_layers(const std::filesystem::path& directory, int layers);
// Exchanges the texts of two tokens of the directory's tokenizer.
void exchange_tokens(const std::filesystem::path& directory, int first, int second);

}  // namespace serval::testing
