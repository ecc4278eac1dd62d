// Compares with Hugging Face's `tokenizers` on strings of all scripts and tokenizers with all settings.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/stream_decoder.h"
#include "tests/tokenizer/golden_data.h"

namespace serval {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// The goldens record only values that differ from `otherwise`.
template <typename T>
T recorded(const json& differences, std::size_t index, const T& otherwise) {
  const auto found = differences.find(std::to_string(index));
  return found == differences.end() ? otherwise : found->get<T>();
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  const Tokenizer tokenizer_ = golden::tokenizer(GetParam());
  const json recorded_ = golden::read(GetParam() + "/goldens.json");
  const std::vector<std::string> strings_ = golden::read("strings.json");
};

TEST_P(Golden, HasAtLeastTwoThousandStrings) {
  EXPECT_GE(strings_.size(), 2000u);
  EXPECT_EQ(recorded_["ids"].size(), strings_.size());
}

TEST_P(Golden, EncodesLikeTokenizers) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    EXPECT_EQ(tokenizer_.encode(strings_[i], false), recorded_["ids"][i].get<Ids>())
        << i << ": " << json(strings_[i]);
  }
}

TEST_P(Golden, AddsTheTokensOfThePostProcessor) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    Ids expected = recorded_["prefix"];
    const Ids inner = recorded_["ids"][i], suffix = recorded_["suffix"];
    expected.insert(expected.end(), inner.begin(), inner.end());
    expected.insert(expected.end(), suffix.begin(), suffix.end());
    EXPECT_EQ(tokenizer_.encode(strings_[i], true), expected) << i;
  }
}

TEST_P(Golden, EncodesSpecialTokensOfPlainTextAsTextLikeTokenizers) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const Ids expected = recorded(recorded_["ids_special_as_text"], i, recorded_["ids"][i].get<Ids>());
    EXPECT_EQ(tokenizer_.encode_plain(strings_[i]), expected) << i << ": " << json(strings_[i]);
  }
}

TEST_P(Golden, DecodesLikeTokenizers) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const Ids ids = recorded_["ids"][i];
    const std::string text = recorded(recorded_["decoded"], i, strings_[i]);
    EXPECT_EQ(tokenizer_.decode(ids, false), text) << i;
    EXPECT_EQ(tokenizer_.decode(ids, true), recorded(recorded_["decoded_without_special"], i, text)) << i;
  }
}

TEST_P(Golden, DecodesAnyIdsLikeTokenizers) {
  for (const json& sequence : recorded_["random"]) {
    EXPECT_EQ(tokenizer_.decode(sequence[0].get<Ids>(), false), sequence[1].get<std::string>()) << sequence;
    EXPECT_EQ(tokenizer_.decode(sequence[0].get<Ids>(), true), sequence[2].get<std::string>()) << sequence;
  }
}

TEST_P(Golden, StreamsWhatItDecodes) {
  for (const char* list : {"ids", "random"}) {
    for (const json& entry : recorded_[list]) {
      const Ids ids = entry.empty() || entry[0].is_number() ? entry.get<Ids>() : entry[0].get<Ids>();
      for (const bool skip : {false, true}) {
        EXPECT_EQ(streamed(tokenizer_, ids, skip), tokenizer_.decode(ids, skip)) << entry;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Golden, testing::ValuesIn(golden::kNames),
                         [](const auto& test) { return test.param; });

TEST(GoldenPreTokenizers, CutLikeTokenizers) {
  const json recorded = golden::read("pre_tokenizers.json");
  const std::vector<std::string> strings = recorded["strings"];
  for (const json& test : recorded["cases"]) {
    const PreTokenizer pre_tokenizer(JsonField(test["pre_tokenizer"], "tokenizer.json"));
    for (std::size_t i = 0; i < strings.size(); ++i) {
      std::deque<std::string> storage;
      const auto views = pre_tokenizer.split(strings[i], &storage);
      const std::vector<std::string> pieces(views.begin(), views.end());
      EXPECT_EQ(pieces, test["pieces"][i].get<std::vector<std::string>>())
          << test["pre_tokenizer"] << " on " << json(strings[i]);
    }
  }
}

}  // namespace
}  // namespace serval
