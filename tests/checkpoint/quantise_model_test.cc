// A model that is written in codes has the codes and scales that loading it in these types would make.
#include "models/quantise_model.h"

#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "models/architectures.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/checkpoint/quantised/compressed_tensors_writer.h"
#include "models/checkpoint/stored_formats.h"
#include "models/model_files.h"
#include "tests/checkpoint/test_files.h"
#include "vm/base/bf16.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const std::string kUp = "model.layers.0.mlp.up_proj";

void write_tiny(const TempDir& dir, const std::vector<TestTensor>& tensors, bool tied = true) {
  dir.write("config.json", tiny_config_json(tied));
  dir.write("model.safetensors", safetensors_file(tensors));
}

void quantise(const fs::path& from, const WeightFormats& formats, const fs::path& target,
              const QuantiseOptions& options = {}) {
  const auto files = open_model_files(from);
  const auto model = files->model()->with_formats(formats);
  quantise_model(from, *model, *files->weights(NotFinite::kRefused, *model), target, options);
}

// A weight's values: bf16, or rows of codes that a source keeps or that loading would make.
struct Loaded {
  DType dtype;
  std::vector<float> values;
};

Loaded loaded_from(const WeightSource& source, const WeightSpec& spec) {
  const size_t tensor = source.index_of(spec.source_name());
  const auto width = static_cast<size_t>(spec.cols);
  Loaded loaded = {spec.dtype, {}};
  std::vector<uint16_t> bf16(static_cast<size_t>(spec.elements()));
  source.read(tensor, 0, bf16);
  std::vector<uint8_t> codes(static_cast<size_t>(spec.bytes()));
  if (spec.copy_of.empty() && source.keeps_codes(tensor)) {
    source.read_codes(tensor, 0, spec.rows, codes.data());
  } else if (has_codes(spec.dtype)) {
    quantise_rows(spec.dtype, bf16.data(), spec.rows, spec.cols, codes.data());
  }
  for (size_t i = 0; i < bf16.size(); ++i)
    loaded.values.push_back(
        has_codes(spec.dtype)
            ? value_in_row(spec.dtype, codes.data() + i / width * spec.row_bytes(), width, i % width)
            : bf16_to_float(bf16[i]));
  return loaded;
}

std::map<std::string, Loaded> all_of(const fs::path& directory, const WeightFormats& formats) {
  const auto files = open_model_files(directory);
  const auto model = files->model()->with_formats(formats);
  const auto source = files->weights(NotFinite::kRefused, *model);
  std::map<std::string, Loaded> all;
  for (const WeightSpec& spec : model->weights()) all.emplace(spec.name, loaded_from(*source, spec));
  return all;
}

// Quantises a directory and compares what is loaded. Returns the new directory's config.json.
json expect_same(const TempDir& dir, const WeightFormats& formats) {
  const fs::path target = dir / "out";
  quantise(dir.path(), formats, target);
  EXPECT_EQ(stored_formats(target, *read_model(target)).formats, formats);
  const auto expected = all_of(dir.path(), formats), found = all_of(target, formats);
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, weight] : expected) {
    EXPECT_EQ(found.at(name).dtype, weight.dtype) << name;
    EXPECT_EQ(found.at(name).values, weight.values) << name;
  }
  return json::parse(std::ifstream(target / "config.json"));
}

class QuantiseFormats : public testing::TestWithParam<std::tuple<WeightFormats, bool>> {};

TEST_P(QuantiseFormats, HasTheCodesAndScalesOfLoading) {
  const auto& [formats, tied] = GetParam();
  const TempDir dir;
  write_tiny(dir, tiny_tensors("BF16", tied), tied);
  const json config = expect_same(dir, formats);
  EXPECT_EQ(config["tie_word_embeddings"], tied && formats.lm_head == DType::kBF16);
  EXPECT_EQ(config["vocab_size"], 24);
}

constexpr DType kTypes[] = {DType::kBF16, DType::kE4M3, DType::kInt4G32};

std::vector<WeightFormats> all_formats() {
  std::vector<WeightFormats> all;
  for (const DType layers : kTypes)
    for (const DType lm_head : kTypes)
      if (has_codes(layers) || has_codes(lm_head)) all.push_back({.layers = layers, .lm_head = lm_head});
  all.push_back({.layers = DType::kInt4G32, .lm_head = DType::kInt4G64});
  return all;
}

std::string name_of_parameter(const testing::TestParamInfo<std::tuple<WeightFormats, bool>>& info) {
  const auto& [formats, tied] = info.param;
  std::string name = fmt::format("{}_head_{}_{}", name_of(formats.layers), name_of(formats.lm_head),
                                 tied ? "tied" : "untied");
  std::erase(name, ':');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, QuantiseFormats,
                         testing::Combine(testing::ValuesIn(all_formats()), testing::Bool()),
                         name_of_parameter);

// Makes row 3 of a matrix as small as no fp16 is, and row 4 zero.
std::vector<TestTensor> with_tiny_row() {
  std::vector<TestTensor> tensors = tiny_tensors("BF16");
  TestTensor& up = *std::ranges::find(tensors, kUp + ".weight", &TestTensor::name);
  for (size_t col = 0; col < 64; ++col) {
    const uint16_t small = float_to_bf16(static_cast<float>(col + 1) * 0x1.3p-40F), zero = 0;
    std::memcpy(up.data.data() + (3 * 64 + col) * sizeof small, &small, sizeof small);
    std::memcpy(up.data.data() + (4 * 64 + col) * sizeof zero, &zero, sizeof zero);
  }
  return tensors;
}

TEST(QuantiseModel, ScalesThatAreNoFp16NumbersAreStoredInFp32) {
  const TempDir dir;
  write_tiny(dir, with_tiny_row());
  expect_same(dir, {.layers = DType::kInt4G32});
  const Checkpoint checkpoint = Checkpoint::open(dir / "out");
  EXPECT_EQ(checkpoint.tensor(kUp + ".weight_scale").dtype, StoredType::kF32);
  EXPECT_EQ(checkpoint.tensor("model.layers.0.mlp.gate_proj.weight_scale").dtype, StoredType::kF16);
}

TEST(QuantiseModel, OtherTypesAreReadAsTheyAreLoaded) {
  for (const char* type : {"F16", "F32"}) {
    const TempDir dir;
    write_tiny(dir, tiny_tensors(type));
    expect_same(dir, {.layers = DType::kE4M3});
  }
}

TEST(QuantiseModel, CodesThatACheckpointHasAreKept) {
  const TempDir dir;
  write_tiny(dir, tiny_tensors("BF16"));
  for (const WeightFormats formats :
       {WeightFormats{.layers = DType::kE4M3}, WeightFormats{.layers = DType::kInt4G32}}) {
    const fs::path first = dir / fmt::format("a{}", name_of(formats.layers)),
                   second = first.string() + "-again";
    quantise(dir.path(), formats, first);
    quantise(first, formats, second);
    for (const char* file : {"config.json", "model.safetensors"}) {
      const auto content = [&](const fs::path& path) {
        std::ifstream in(path / file, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
      };
      EXPECT_EQ(content(first), content(second));
    }
  }
}

TEST(QuantiseModel, FilesBesideTheWeightsAreCopied) {
  const TempDir dir;
  write_tiny(dir, tiny_tensors("BF16"));
  fs::create_directory(dir / "sub");
  fs::create_directory(dir / ".cache");
  for (const char* copied : {"tokenizer.json", "LICENSE", "sub/a.json"}) dir.write(copied, copied);
  for (const char* left : {"pytorch_model.bin", "old.safetensors.index.json", ".gitattributes", ".cache/a",
                           "sub/consolidated.pth"})
    dir.write(left, left);
  quantise(dir.path(), {.layers = DType::kE4M3}, dir / "out");
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(dir / "out"))
    if (entry.is_regular_file()) found.push_back(entry.path().lexically_relative(dir / "out").string());
  EXPECT_THAT(found, testing::UnorderedElementsAre("tokenizer.json", "LICENSE", "sub/a.json", "config.json",
                                                   "model.safetensors"));
}

TEST(QuantiseModel, NothingIsLeftWhereItFails) {
  const TempDir dir;
  std::vector<TestTensor> tensors = tiny_tensors("BF16");
  const uint16_t nan = 0x7FC0;
  std::memcpy(tensors.back().data.data(), &nan, sizeof nan);
  write_tiny(dir, tensors);
  EXPECT_THAT(error_of([&] { quantise(dir.path(), {.layers = DType::kE4M3}, dir / "out"); }),
              HasSubstr("nan"));
  struct Stop {};
  QuantiseOptions options;
  options.progress = [](int64_t, int64_t) { throw Stop(); };
  EXPECT_THROW(quantise(dir.path(), {.layers = DType::kE4M3}, dir / "out", options), Stop);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2);
}

TEST(QuantiseModel, RefusesWhatTheLayoutLacks) {
  WeightSpec spec = {.name = "m.weight", .rows = 8, .cols = 32, .dtype = DType::kInt4G32};
  std::vector<uint8_t> rows(static_cast<size_t>(spec.bytes()));
  const auto refusal = [&](uint32_t word) {
    int4_rows::set_word(rows.data(), 32, 0, word);
    return error_of([&] { CompressedMatrix(spec, "m").set_rows(0, 1, rows.data()); });
  };
  EXPECT_EQ(refusal(int4::word_with_minimum(0x3C00, 0)),
            "m: group 0 of row 0 has a minimum instead of a zero point; compressed-tensors has zero points "
            "of 0 to 15");
  EXPECT_THAT(refusal(int4::word_with_zero_point(0x3C00, 16)), HasSubstr("has the zero point 16"));
  const TempDir dir;
  write_tiny(dir, tiny_tensors("BF16"));
  EXPECT_THAT(error_of([&] { quantise(dir.path(), {}, dir / "out"); }, ErrorKind::kUsage), HasSubstr("bf16"));
}

}  // namespace
}  // namespace serval
