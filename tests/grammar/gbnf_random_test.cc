// Random grammars, compared with a recogniser that is written here over a tree of its own.
#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "engine/grammar/configurations.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/utf8_ranges.h"
#include "tests/instructions/scene.h"

namespace serval::testing {
namespace {

using namespace grammar;

// The characters of all texts. One of each length in UTF-8.
constexpr std::u32string_view kAlphabet = U"ab\u00e9\u20ac\U0001F600";

std::string utf8(char32_t c) {
  std::vector<uint8_t> bytes;
  append_utf8(c, bytes);
  return {bytes.begin(), bytes.end()};
}

struct Part {
  enum class Kind { kText, kClass, kAny, kRule, kSequence, kAlternatives, kRepetition } kind;
  std::u32string text = {};  // kText
  std::u32string set = {};   // kClass: the characters of the alphabet that match
  size_t rule = 0;
  std::vector<Part> parts = {};
  size_t least = 0, most = 0;
  std::string spelling = {};  // kClass, kRepetition: as the grammar writes it
};
using Rules = std::vector<Part>;
constexpr size_t kUnlimited = 1000;

using Ends = std::set<size_t>;

Ends ends_of(const Rules& rules, const Part& part, std::u32string_view text, size_t begin);

Ends ends_of_all(const Rules& rules, const Part& part, std::u32string_view text, const Ends& begins) {
  Ends ends;
  for (const size_t begin : begins) ends.merge(ends_of(rules, part, text, begin));
  return ends;
}

Ends ends_of_repetition(const Rules& rules, const Part& part, std::u32string_view text, size_t begin) {
  Ends ends, reached = {begin};
  const size_t enough = part.least + text.size() + 1;  // more times read nothing new
  for (size_t times = 0; times <= std::min(part.most, enough); ++times) {
    if (times >= part.least) ends.insert(reached.begin(), reached.end());
    reached = ends_of_all(rules, part.parts[0], text, reached);
  }
  return ends;
}

// All places at which a text of the part that starts at `begin` can end.
Ends ends_of(const Rules& rules, const Part& part, std::u32string_view text, size_t begin) {
  using enum Part::Kind;
  switch (part.kind) {
    case kText:
      return text.substr(begin).starts_with(part.text) ? Ends{begin + part.text.size()} : Ends{};
    case kAny:
      return begin < text.size() ? Ends{begin + 1} : Ends{};
    case kClass:
      return begin < text.size() && part.set.find(text[begin]) != std::u32string::npos ? Ends{begin + 1}
                                                                                       : Ends{};
    case kRule:
      return ends_of(rules, rules[part.rule], text, begin);
    case kRepetition:
      return ends_of_repetition(rules, part, text, begin);
    case kSequence: {
      Ends ends = {begin};
      for (const Part& one : part.parts) ends = ends_of_all(rules, one, text, ends);
      return ends;
    }
    case kAlternatives:
      break;
  }
  Ends ends;
  for (const Part& one : part.parts) ends.merge(ends_of(rules, one, text, begin));
  return ends;
}

std::string written(const Part& part) {
  using enum Part::Kind;
  std::string all;
  switch (part.kind) {
    case kText:
      for (const char32_t c : part.text) all += utf8(c);
      return "\"" + all + "\"";
    case kAny:
      return ".";
    case kClass:
      return part.spelling;
    case kRule:
      return "r-" + std::to_string(part.rule);
    case kRepetition:
      return written(part.parts[0]) + part.spelling;
    case kSequence:
    case kAlternatives:
      for (const Part& one : part.parts)
        all += (all.empty() ? "" : part.kind == kSequence ? " " : " | ") + written(one);
      break;
  }
  return "(" + all + ")";
}

class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed) : random_(seed) {
    constexpr size_t kRules = 4;
    for (size_t rule = 0; rule < kRules; ++rule) rules_.push_back(part(2, rule + 1, kRules));
  }
  const Rules& rules() const { return rules_; }
  std::string text() const {
    std::string all = "root ::= r-0\n";
    for (size_t i = 0; i < rules_.size(); ++i)
      all += "r-" + std::to_string(i) + " ::= " + written(rules_[i]) + "\n";
    return all;
  }

 private:
  // Refers only to rules from `first_rule` on, so that rules are not recursive.
  Part part(int depth, size_t first_rule, size_t num_rules) {
    using enum Part::Kind;
    const uint32_t kind = random_.below(depth == 0 ? 6 : 12);
    if (kind < 2) return literal();
    if (kind < 4) return one_of();
    if (kind == 4) return {.kind = kAny};
    if (kind == 5) {
      if (first_rule >= num_rules) return literal();
      const auto choice = random_.below(static_cast<uint32_t>(num_rules - first_rule));
      return {.kind = kRule, .rule = first_rule + choice};
    }
    if (kind < 8) return repetition(part(depth - 1, first_rule, num_rules));
    Part all{.kind = kind < 10 ? kSequence : kAlternatives};
    for (uint32_t count = random_.between(1, 3); count > 0; --count)
      all.parts.push_back(part(depth - 1, first_rule, num_rules));
    return all;
  }
  char32_t character() { return kAlphabet[random_.below(static_cast<uint32_t>(kAlphabet.size()))]; }
  Part literal() {
    Part part{.kind = Part::Kind::kText};
    for (uint32_t length = random_.below(3); length > 0; --length) part.text += character();
    return part;
  }
  // A class of a range or of single characters, negated or not.
  Part one_of() {
    Part part{.kind = Part::Kind::kClass};
    const bool negated = random_.chance(0.4);
    char32_t low = character(), high = random_.chance(0.5) ? low : character();
    if (high < low) std::swap(low, high);
    for (const char32_t c : kAlphabet)
      if ((c >= low && c <= high) != negated) part.set += c;
    part.spelling = (negated ? "[^" : "[") + utf8(low) + (low == high ? "" : "-" + utf8(high)) + "]";
    return part;
  }
  Part repetition(Part body) {
    Part part{.kind = Part::Kind::kRepetition, .parts = {std::move(body)}};
    const size_t least = random_.below(3), most = least + random_.below(3);
    const std::string first = std::to_string(least), last = std::to_string(most);
    const std::vector<std::tuple<size_t, size_t, std::string>> kinds = {
        {0, kUnlimited, "*"},
        {1, kUnlimited, "+"},
        {0, 1, "?"},
        {least, least, "{" + first + "}"},
        {least, most, "{" + first + "," + last + "}"},
        {least, kUnlimited, "{" + first + ", }"}};
    std::tie(part.least, part.most, part.spelling) = random_.pick(kinds);
    return part;
  }

  Random random_;
  Rules rules_;
};

// Compares all texts of the alphabet up to a length. Configurations follow them as a tree.
class Comparison {
 public:
  explicit Comparison(const RandomGrammar& random)
      : random_(random), text_(random.text()), grammar_(compile_gbnf(text_)), configurations_(grammar_, 16) {}

  void compare(size_t longest) {
    std::u32string text;
    compare_from(configurations_.start(), text, longest);
  }
  size_t accepted() const { return accepted_; }

 private:
  bool is_expected(const std::u32string& text) const {
    return ends_of(random_.rules(), random_.rules()[0], text, 0).contains(text.size());
  }
  // Returns whether a text with this beginning is accepted.
  bool compare_from(ConfigId config, std::u32string& text, size_t more) {
    std::string shown;
    for (const char32_t c : text) shown += utf8(c);
    const bool is = config != kDead && configurations_.is_complete(config);
    EXPECT_EQ(is, is_expected(text)) << text_ << "'" << shown << "'";
    accepted_ += is ? 1 : 0;
    bool leads_on = is;
    if (more == 0) return leads_on;
    for (const char32_t c : kAlphabet) {
      ConfigId next = config;
      for (const char byte : utf8(c)) next = configurations_.after(next, static_cast<uint8_t>(byte));
      text.push_back(c);
      leads_on |= compare_from(next, text, more - 1);
      text.pop_back();
    }
    EXPECT_TRUE(!leads_on || config != kDead) << text_ << "'" << shown << "'";
    return leads_on;
  }

  const RandomGrammar& random_;
  const std::string text_;
  const Grammar grammar_;
  Configurations configurations_;
  size_t accepted_ = 0;
};

TEST(RandomGbnf, AcceptsWhatARecogniserAccepts) {
  constexpr size_t kLongest = 4;
  size_t accepted = 0, texts = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RandomGrammar random(seed);
    Comparison comparison(random);
    comparison.compare(kLongest);
    accepted += comparison.accepted();
    texts += 1 + 5 + 25 + 125 + 625;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(accepted, texts / 20);
  EXPECT_LT(accepted, texts / 2);
}

}  // namespace
}  // namespace serval::testing
