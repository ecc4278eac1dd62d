// The host's time to find a mask of the tokens that can come next (engine/grammar), over a vocabulary as
// large as Llama 3's: found for the first time, and looked up.
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"

#include "engine/grammar/constraint.h"
#include "engine/grammar/json_schema.h"

namespace serval {
namespace {

using namespace grammar;

constexpr uint32_t kVocab = 128'256;

// All bytes, numbers of up to 3 digits, and words: most with a space before them, some with letters beyond
// ASCII, some with the punctuation of code around them.
std::vector<std::string> vocabulary() {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const std::vector<std::string> letters = {"e",  "t",  "a",  "o", "in",  "er", "th",
                                            "on", "re", "st", "é", "ung", "и",  "的"};
  const std::vector<std::string> marks = {"\"", "\":", "\",", "\\n", "({", "\n",
                                          "\t", "();", "[]",  "\"}", "='"};
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (int number = 0; number < 1000; ++number) tokens.push_back(std::to_string(number));
  while (tokens.size() < kVocab) {
    std::string token = below(10) < 6 ? " " : "";
    if (below(100) < 5) token += marks[below(static_cast<uint32_t>(marks.size()))];
    for (uint32_t parts = 1 + below(6); parts > 0; --parts)
      token += letters[below(static_cast<uint32_t>(letters.size()))];
    if (below(100) < 5) token += marks[below(static_cast<uint32_t>(marks.size()))];
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::shared_ptr<const TokenTrie> trie() {
  static const std::vector<std::string> tokens = vocabulary();
  static const auto trie = std::make_shared<const TokenTrie>(
      kVocab, [](int32_t id) { return std::optional(tokens[static_cast<size_t>(id)]); });
  return trie;
}

struct Place {
  const char* name;
  const char* schema;
  const char* text;  // before the mask
};
constexpr Place kPlaces[] = {
    {"object", R"({"type":"object"})", ""},
    {"key", R"({"type":"object"})", "{\"a"},
    {"value", R"({"type":"object"})", "{\"a\":"},
    {"string", R"({"type":"string"})", "\"a"},
    {"string_of_length", R"({"type":"string","maxLength":40})", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    {"number", R"({"type":"number"})", "12"},
    {"pattern", R"({"type":"string","pattern":"^[a-z ]+$"})", "\"a"},
    {"any_pattern", R"({"type":"string","pattern":"x.*y"})", "\"a"},
    {"enum", R"({"enum":["tea","the","ten","thin"]})", "\"t"}};

// After each byte of the text.
ConstrainedText text_at(const std::shared_ptr<Constraint>& constraint, const Place& place) {
  ConstrainedText text(constraint);
  for (const char* c = place.text; *c != '\0'; ++c) text.add(static_cast<uint8_t>(*c));
  return text;
}

void first_mask(benchmark::State& state, const Place& place) {
  const auto grammar = compile_json_schema(place.schema);
  trie();
  for (auto _ : state) {
    state.PauseTiming();
    Configurations configurations(grammar, trie()->longest_token());
    TokenMasks masks(*trie(), configurations);
    ConfigId config = configurations.start();
    for (const char* c = place.text; *c != '\0'; ++c) config = masks.after(config, static_cast<uint8_t>(*c));
    state.ResumeTiming();
    benchmark::DoNotOptimize(masks.mask(config));
  }
}

void known_mask(benchmark::State& state) {
  const auto constraint = std::make_shared<Constraint>(compile_json_schema(kPlaces[3].schema), trie());
  const ConstrainedText before = text_at(constraint, kPlaces[3]);
  for (auto _ : state) {
    ConstrainedText text = before;
    text.add('b');
    benchmark::DoNotOptimize(text.place().mask->data());
  }
}

void compile_schema(benchmark::State& state) {
  trie();
  for (auto _ : state) {
    Constraint constraint(compile_json_schema(kPlaces[0].schema), trie());
    constraint.precompute_masks();
  }
}

void build_trie(benchmark::State& state) {
  const std::vector<std::string> tokens = vocabulary();
  for (auto _ : state)
    benchmark::DoNotOptimize(
        TokenTrie(kVocab, [&](int32_t id) { return std::optional(tokens[static_cast<size_t>(id)]); }));
}

void declare() {
  for (const Place& place : kPlaces)
    benchmark::RegisterBenchmark((std::string("first_mask/") + place.name).c_str(), first_mask, place)
        ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("known_mask", known_mask)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("compile_schema", compile_schema)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("build_trie", build_trie)->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace serval

int main(int argc, char** argv) {
  serval::declare();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
