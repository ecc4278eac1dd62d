// Tensors that are written to safetensors files are read as they were, whatever the files' size.
#include "models/checkpoint/checkpoint_writer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/checkpoint/checkpoint.h"
#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::vector<PlannedTensor> kTensors = {{"words", StoredType::kI32, {3, 5}},
                                             {"scales", StoredType::kF32, {100}},
                                             {"one", StoredType::kI64, {}},
                                             {"bytes", StoredType::kU8, {2, 999}}};

std::vector<std::byte> content_of(size_t tensor, size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i * 7 + tensor);
  return content;
}

// Writes the tensors, with the scales in the given type.
void write_all(const fs::path& directory, int64_t file_bytes, StoredType scales = StoredType::kF32) {
  CheckpointWriter writer(directory, kTensors, file_bytes);
  for (size_t tensor = 0; tensor < kTensors.size(); ++tensor) {
    PlannedTensor stored = kTensors[tensor];
    if (stored.name == "scales") stored.dtype = scales;
    writer.begin_tensor(stored.dtype);
    const std::vector<std::byte> content = content_of(tensor, static_cast<size_t>(stored.bytes()));
    const size_t half = content.size() / 2;
    writer.write(std::span(content).first(half));
    writer.write(std::span(content).subspan(half));
  }
  writer.finish();
}

void expect_all(const fs::path& directory, StoredType scales = StoredType::kF32) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  EXPECT_EQ(checkpoint.names().size(), kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    const TensorView& tensor = checkpoint.tensor(kTensors[i].name);
    EXPECT_EQ(tensor.dtype, tensor.name == "scales" ? scales : kTensors[i].dtype);
    EXPECT_EQ(tensor.shape, kTensors[i].shape);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, content_of(i, tensor.bytes.size()))) << tensor.name;
  }
}

TEST(CheckpointWriter, WritesOneFileThatHasRoom) {
  const TempDir dir;
  write_all(dir.path(), 1 << 20);
  EXPECT_TRUE(fs::exists(dir / "model.safetensors"));
  EXPECT_FALSE(fs::exists(dir / "model.safetensors.index.json"));
  expect_all(dir.path());
}

TEST(CheckpointWriter, ATypeMayTurnOutSmallerThanPlanned) {
  for (const int64_t file_bytes : {1 << 20, 1}) {
    const TempDir dir;
    write_all(dir.path(), file_bytes, StoredType::kF16);
    expect_all(dir.path(), StoredType::kF16);
  }
}

TEST(CheckpointWriter, FilesAreNotLargerThanAsked) {
  for (const int64_t file_bytes : {2400, 2900, 3000, 100'000}) {
    const TempDir dir;
    write_all(dir.path(), file_bytes);
    expect_all(dir.path());
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      EXPECT_LE(entry.file_size(), file_bytes);
      ++files;
    }
    EXPECT_EQ(files, file_bytes < 2600 ? 2 : files);
    EXPECT_EQ(fs::exists(dir / "model.safetensors.index.json"), files > 1);
  }
}

TEST(CheckpointWriter, ATensorThatIsTooLargeHasAFileOfItsOwn) {
  const TempDir dir;
  write_all(dir.path(), 1);
  for (const char* number : {"1", "2", "3", "4"})
    EXPECT_TRUE(fs::exists(dir / ("model-0000" + std::string(number) + "-of-00004.safetensors")));
  expect_all(dir.path());
}

TEST(CheckpointWriter, DataStartsAtAMultipleOfEightBytes) {
  const TempDir dir;
  write_all(dir.path(), 1 << 20);
  const SafetensorsFile file(dir / "model.safetensors");
  const auto* start = file.tensors().at("words").bytes.data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 8, 0);  // the file is mapped to a page
}

TEST(CheckpointWriter, RefusesMoreFilesThanAReaderTakes) {
  const TempDir dir;
  const std::vector<PlannedTensor> many(CheckpointLimits::kMaxShards + 1, {"x", StoredType::kU8, {1}});
  EXPECT_THAT(error_of([&] { CheckpointWriter(dir.path(), many, 1); }, ErrorKind::kUsage),
              HasSubstr("shard_size: 1 bytes make 4097 files; limit: 4096"));
}

}  // namespace
}  // namespace serval
