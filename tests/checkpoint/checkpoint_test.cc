#include "models/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include "fmt/format.h"

#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";

std::string index_json(const std::string& weight_map) {
  return R"({"metadata": {"total_size": 8}, "weight_map": )" + weight_map + "}";
}

std::string error_in_index(const std::string& weight_map) {
  return error_of([&] { parse_index(index_json(weight_map), "index"); });
}

TEST(Checkpoint, OpensASingleFile) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file({{"b", "U8", {1}, "b"}, {"a", "U8", {2}, "aa"}}));
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_TRUE(checkpoint.contains("a"));
  EXPECT_FALSE(checkpoint.contains("c"));
  EXPECT_EQ(checkpoint.tensor("a").bytes.size(), 2);
  EXPECT_EQ(checkpoint.path_of("a"), (dir / "model.safetensors").string());
}

TEST(Checkpoint, OpensShardsByTheirIndex) {
  const TempDir dir;
  dir.write("one.safetensors", safetensors_file({{"a", "U8", {1}, "1"}, {"b", "U8", {1}, "2"}}));
  dir.write("two.safetensors", safetensors_file({{"c", "U8", {1}, "3"}}));
  dir.write(kIndex,
            index_json(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})"));
  const Checkpoint opened = Checkpoint::open(dir.path());
  const TensorView& before = opened.tensor("c");
  EXPECT_THAT(opened.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(static_cast<char>(before.bytes[0]), '3');
  EXPECT_EQ(opened.path_of("c"), (dir / "two.safetensors").string());
}

TEST(Checkpoint, PrefersTheSingleFile) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file({{"a", "U8", {1}, "1"}}));
  dir.write(kIndex, "not an index");
  EXPECT_THAT(Checkpoint::open(dir.path()).names(), ElementsAre("a"));
}

TEST(Checkpoint, SaysWhatADirectoryLacks) {
  const TempDir dir;
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir.path()); }),
            dir.path().string() + ": found neither model.safetensors nor model.safetensors.index.json");
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir / "none"); }), HasSubstr("found neither"));
}

TEST(Checkpoint, NamesATensorThatIsMissing) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file({{"a", "U8", {1}, "1"}}));
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(error_of([&] { checkpoint.tensor("c"); }),
            (dir / "model.safetensors").string() + ": tensor \"c\": missing");
}

TEST(Checkpoint, NamesAShardThatIsMissing) {
  const TempDir dir;
  dir.write(kIndex, index_json(R"({"a": "one.safetensors"})"));
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir.path()); }),
            (dir / "one.safetensors").string() + ": No such file or directory");
}

TEST(Checkpoint, NamesATensorThatIsMissingInItsShard) {
  const TempDir dir;
  dir.write("one.safetensors", safetensors_file({{"a", "U8", {1}, "1"}}));
  dir.write(kIndex, index_json(R"({"b": "one.safetensors"})"));
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir.path()); }),
            (dir / "one.safetensors").string() +
                ": tensor \"b\": missing, although model.safetensors.index.json lists it in this file");
}

TEST(Checkpoint, DoesNotWaitForAPipeInAFilesPlace) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }), HasSubstr("not a regular file"));
}

TEST(CheckpointIndex, MapsTensorsToShards) {
  const auto shards = parse_index(index_json(R"({"a": "x.safetensors"})"), "index");
  EXPECT_THAT(shards, ElementsAre(testing::Pair("a", "x.safetensors")));
}

TEST(CheckpointIndex, RefusesShardNamesThatLeaveTheDirectory) {
  for (const char* name : {"../x", "/etc/passwd", "sub/x", "..", ".", "", "a\\\\b", "a\\u0000b"})
    EXPECT_THAT(error_in_index(fmt::format(R"({{"a": "{}"}})", name)),
                HasSubstr("expected a file name without folders"));
}

TEST(CheckpointIndex, RefusesAWeightMapOfAnotherForm) {
  EXPECT_THAT(error_in_index(R"({"a": 7})"), HasSubstr("index: weight_map: \"a\": found 7"));
  EXPECT_THAT(error_in_index("[]"), HasSubstr("index: weight_map: missing, or not an object"));
  EXPECT_THAT(error_of([] { parse_index("{}", "index"); }), HasSubstr("index: weight_map: missing"));
  EXPECT_THAT(error_of([] { parse_index("7", "index"); }), HasSubstr("index: found 7"));
}

TEST(CheckpointIndex, RefusesDuplicateTensors) {
  EXPECT_THAT(error_in_index(R"({"a": "x", "a": "y"})"), HasSubstr("\"a\""));
}

TEST(CheckpointIndex, RefusesTooManyShards) {
  const TempDir dir;
  std::string map = R"("t": "s")";
  for (int i = 0; i < 4096; ++i) map += fmt::format(R"(, "t{}": "s{}")", i, i);
  dir.write(kIndex, index_json("{" + map + "}"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }), HasSubstr("names 4097 files; limit: 4096"));
}

}  // namespace
}  // namespace serval
