#include "models/jinja/letters.h"

#include "models/tokenizer/regex.h"

namespace serval::jinja {
namespace {

char upper_letter(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return upper_letter(c) != lower_letter(c);
}

const Text& checked(Evaluation& evaluation, const Text& text) {
  static const Regex kCased(R"([\p{LC}&&[^a-zA-Z]])", "letters with case");
  evaluation.charge(text.size());
  if (!kCased.find_all(text.bytes()).empty())
    evaluation.fail("changing the case of other letters than a to z is not supported");
  return text;
}

}  // namespace

Text upper(Evaluation& evaluation, const Text& text) {
  return checked(evaluation, text).changed(upper_letter);
}

Text lower(Evaluation& evaluation, const Text& text) {
  return checked(evaluation, text).changed(lower_letter);
}

Text capitalized(Evaluation& evaluation, const Text& text) {
  return checked(evaluation, text).changed([first = true](char c) mutable {
    return std::exchange(first, false) ? upper_letter(c) : lower_letter(c);
  });
}

Text title(Evaluation& evaluation, const Text& text, std::string_view before) {
  return checked(evaluation, text).changed([begins = true, before](char c) mutable {
    const char out = begins ? upper_letter(c) : lower_letter(c);
    begins = before.empty() ? !is_letter(c) : before.find(c) != before.npos;
    return out;
  });
}

}  // namespace serval::jinja
