#include "models/pooling.h"

#include <filesystem>
#include <string>

#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

using testing::HasSubstr;

constexpr const char* kTransformer = R"({"idx": 0, "name": "0", "path": "",
  "type": "sentence_transformers.models.Transformer"})";
constexpr const char* kPooling = R"({"idx": 1, "name": "1", "path": "1_Pooling",
  "type": "sentence_transformers.models.Pooling"})";
constexpr const char* kNormalize = R"({"idx": 2, "name": "2", "path": "2_Normalize",
  "type": "sentence_transformers.models.Normalize"})";

// A model's directory as sentence-transformers writes it.
class Directory {
 public:
  explicit Directory(const std::string& modules, const std::string& pooling = "{}") {
    std::filesystem::create_directory(dir_ / "1_Pooling");
    dir_.write("modules.json", "[" + modules + "]");
    dir_.write("1_Pooling/config.json", pooling);
  }
  std::optional<PoolingConfig> read() const { return read_sentence_transformers(dir_.path()); }
  std::string error() const {
    return error_of([this] { read(); });
  }

 private:
  TempDir dir_;
};

std::string modules(std::initializer_list<const char*> all) {
  std::string text;
  for (const char* module : all) text += (text.empty() ? "" : ", ") + std::string(module);
  return text;
}

// Qwen3-Embedding's files.
TEST(SentenceTransformers, ReadsTheLastTokenWithANorm) {
  const Directory dir(modules({kTransformer, kPooling, kNormalize}), R"({"word_embedding_dimension": 1024,
    "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false,
    "pooling_mode_mean_sqrt_len_tokens": false, "pooling_mode_weightedmean_tokens": false,
    "pooling_mode_lasttoken": true, "include_prompt": true})");
  EXPECT_EQ(dir.read(), (PoolingConfig{Pooling::kLast, true}));
}

TEST(SentenceTransformers, ReadsEachKindAndWhetherEmbeddingsAreNormalised) {
  const std::string without = modules({kTransformer, kPooling});
  EXPECT_EQ(Directory(without, R"({"pooling_mode_mean_tokens": true})").read(),
            (PoolingConfig{Pooling::kMean, false}));
  EXPECT_EQ(Directory(without, R"({"pooling_mode_cls_token": true})").read(),
            (PoolingConfig{Pooling::kCls, false}));
  EXPECT_EQ(Directory(without, R"({"pooling_mode": "mean"})").read(), (PoolingConfig{Pooling::kMean, false}));
}

TEST(SentenceTransformers, OtherDirectoriesSayNothing) {
  EXPECT_EQ(read_sentence_transformers(TempDir().path()), std::nullopt);
  EXPECT_EQ(Directory(kTransformer).read(), std::nullopt);
}

TEST(SentenceTransformers, NamesWhatIsNotSupported) {
  const std::string all = modules({kTransformer, kPooling});
  EXPECT_THAT(
      Directory(all, R"({"pooling_mode_max_tokens": true})").error(),
      HasSubstr("1_Pooling/config.json: pooling_mode_max_tokens: true; supported: lasttoken, mean and cls"));
  EXPECT_THAT(Directory(all, R"({"pooling_mode": "weightedmean"})").error(),
              HasSubstr("pooling_mode: found \"weightedmean\"; supported: "));
  EXPECT_THAT(
      Directory(all, R"({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": true})").error(),
      HasSubstr("pooling_mode_mean_tokens: true, as is pooling_mode_lasttoken; supported: one of them"));
  EXPECT_THAT(Directory(all, "{}").error(), HasSubstr("pooling_mode: missing"));
  EXPECT_THAT(Directory(all, "[]").error(), HasSubstr("1_Pooling/config.json"));
  EXPECT_THAT(Directory(modules({kTransformer, kPooling, R"({"path": "2_Dense",
                "type": "sentence_transformers.models.Dense"})"}),
                        R"({"pooling_mode_lasttoken": true})")
                  .error(),
              HasSubstr("type: found \"sentence_transformers.models.Dense\"; supported: Transformer"));
}

TEST(SentenceTransformers, StaysInTheDirectory) {
  for (const char* path : {"../other", "/etc", "1_Pooling/../../x"}) {
    const std::string module = std::string(R"({"path": ")") + path + R"(", "type": "models.Pooling"})";
    EXPECT_THAT(Directory(module).error(), HasSubstr("expected a directory of the model")) << path;
  }
  EXPECT_THAT(Directory("7").error(), HasSubstr("modules.json"));
}

}  // namespace
}  // namespace serval
