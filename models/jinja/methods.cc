#include "models/jinja/methods.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "models/jinja/arguments.h"
#include "models/jinja/formatting.h"
#include "models/jinja/letters.h"
#include "models/jinja/operators.h"
#include "models/tokenizer/unicode.h"

namespace serval::jinja {
namespace {

struct Method {
  std::string_view name;
  Value (*call)(Evaluation& evaluation, const Value& self, ArgumentReader& arguments);
};

template <Text::Ends ends>
Value strip(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Value chars = arguments.take("chars", Value());
  evaluation.charge(self.text().size());
  if (chars.is_none()) return self.text().stripped(ends);
  return self.text().stripped(ends, arguments.text("chars", chars).bytes());
}

template <bool at_end>
Value has_affix(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Value wanted = arguments.take("prefix");
  const List choices = wanted.is_tuple() ? wanted.elements() : List{wanted};
  evaluation.charge(wanted.weight());
  const std::string_view text = self.text().bytes();
  return std::any_of(choices.begin(), choices.end(), [&](const Value& choice) {
    const std::string affix = arguments.text("prefix", choice).bytes();
    return at_end ? text.ends_with(affix) : text.starts_with(affix);
  });
}

template <bool at_end>
Value without_affix(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Text& text = self.text();
  const std::string affix = arguments.take_text("prefix").bytes();
  evaluation.charge(text.size());
  if (at_end) return text.bytes().ends_with(affix) ? text.slice(0, text.size() - affix.size()) : text;
  return text.bytes().starts_with(affix) ? text.slice(affix.size(), text.size()) : text;
}

// Splits at runs of white space. After `most` splits (-1: no limit), the rest is one part.
List words_of(const Text& text, std::int64_t most) {
  List out;
  const auto at = text.boundaries();
  const std::size_t characters = at.size() - 1;
  const auto is_space = [&](std::size_t i) {
    return is_python_space(std::string_view(text.bytes()).substr(at[i], at[i + 1] - at[i]));
  };
  for (std::size_t i = 0; i < characters; ++i) {
    if (is_space(i)) continue;
    const std::size_t begin = i;
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) {
      out.emplace_back(text.slice(at[begin], text.size()).stripped(Text::Ends::kRight));
      break;
    }
    while (i < characters && !is_space(i)) ++i;
    out.emplace_back(text.slice(at[begin], at[i]));
  }
  return out;
}

List parts_of(const Text& text, std::string_view separator, std::int64_t most) {
  List out;
  std::size_t done = 0;
  for (std::size_t at; most != 0 && (at = text.bytes().find(separator, done)) != std::string::npos; --most) {
    out.emplace_back(text.slice(done, at));
    done = at + separator.size();
  }
  out.emplace_back(text.slice(done, text.size()));
  return out;
}

List parts_from_right(const Text& text, std::string_view separator, std::int64_t most) {
  List out;
  std::size_t end = text.size();
  for (; most != 0 && end >= separator.size(); --most) {
    const std::size_t at = text.bytes().rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    out.emplace_back(text.slice(at + separator.size(), end));
    end = at;
  }
  out.emplace_back(text.slice(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

template <bool from_right>
Value split(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Value separator = arguments.take("sep", Value());
  const std::int64_t most = arguments.take_integer("maxsplit", -1);
  const Text& text = self.text();
  evaluation.charge(text.size() * sizeof(std::size_t));
  if (separator.is_none()) {
    if (from_right && most >= 0) evaluation.fail("rsplit at white space with maxsplit is not supported");
    return evaluation.checked_list(words_of(text, most));
  }
  const std::string at = arguments.text("sep", separator).bytes();
  if (at.empty()) evaluation.fail("split: the separator is empty");
  return evaluation.checked_list(from_right ? parts_from_right(text, at, most) : parts_of(text, at, most));
}

Value replace(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Text old = arguments.take_text("old"), with = arguments.take_text("new");
  const std::int64_t count = arguments.take_integer("count", -1);
  if (old.empty()) evaluation.fail("replace: the text to replace is empty");
  const auto most = count < 0 ? SIZE_MAX : static_cast<std::size_t>(count);
  evaluation.charge(self.text().size() * (1 + with.size() / old.size()));
  return evaluation.checked(self.text().replaced(old.bytes(), with, most));
}

Value join(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  Text out;
  bool first = true;
  for (const Value& element : elements_of(evaluation, arguments.take("iterable"))) {
    if (!std::exchange(first, false)) out.append(self.text());
    out.append(arguments.text("element", element));
    evaluation.charge(self.text().size() + element.weight());
  }
  return evaluation.checked(out);
}

template <bool from_right>
Value find(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const std::string what = arguments.take_text("sub").bytes(), &text = self.text().bytes();
  evaluation.charge(text.size());
  const std::size_t at = from_right ? text.rfind(what) : text.find(what);
  if (at == std::string::npos) return std::int64_t{-1};
  return static_cast<std::int64_t>(self.text().slice(0, at).characters());
}

Value count(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const std::string what = arguments.take_text("sub").bytes();
  if (what.empty()) evaluation.fail("count: the text to count is empty");
  evaluation.charge(self.text().size());
  return static_cast<std::int64_t>(parts_of(self.text(), what, -1).size()) - 1;
}

// center, ljust and rjust.
template <char alignment>
Value justify(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const std::int64_t width = arguments.take_integer("width", 0);
  const Text fill = arguments.text("fillchar", arguments.take("fillchar", Value(Text(" "))));
  if (fill.characters() != 1) evaluation.fail("fillchar: expected one character");
  const Text& text = self.text();
  if (alignment != '^') return padded(evaluation, text, width, fill, alignment);
  // If an odd number of characters is missing, Python puts one more on the left for an odd width.
  const std::int64_t missing = width - static_cast<std::int64_t>(text.characters());
  const std::int64_t before = missing <= 0 ? 0 : missing / 2 + (missing & width & 1);
  const Text left =
      padded(evaluation, text, static_cast<std::int64_t>(text.characters()) + before, fill, '>');
  return padded(evaluation, left, width, fill, '<');
}

Value zfill(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Text& text = self.text();
  const bool is_signed = text.bytes().starts_with('-') || text.bytes().starts_with('+');
  const std::size_t sign = is_signed ? 1 : 0;
  const std::int64_t width = arguments.take_integer("width", 0) - static_cast<std::int64_t>(sign);
  return text.slice(0, sign) + padded(evaluation, text.slice(sign, text.size()), width, Text("0"), '>');
}

// Returns (text before the separator, the separator, text after it).
template <bool from_right>
Value partition(Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
  const Text& text = self.text();
  const Text separator = arguments.take_text("sep");
  if (separator.empty()) evaluation.fail("partition: the separator is empty");
  evaluation.charge(text.size());
  const std::size_t at =
      from_right ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  if (at == std::string::npos)
    return from_right ? Value::tuple({Text(), Text(), text}) : Value::tuple({text, Text(), Text()});
  return Value::tuple({text.slice(0, at), separator, text.slice(at + separator.size(), text.size())});
}

template <bool (*holds)(std::string_view)>
Value predicate(Evaluation& evaluation, const Value& self, ArgumentReader&) {
  evaluation.charge(self.text().size() * sizeof(std::uint32_t));
  return holds(self.text().bytes());
}

constexpr Method kTextMethods[] = {
    {"strip", strip<Text::Ends::kBoth>},
    {"lstrip", strip<Text::Ends::kLeft>},
    {"rstrip", strip<Text::Ends::kRight>},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines",
     [](Evaluation& evaluation, const Value& self, ArgumentReader& arguments) {
       evaluation.charge(self.text().size() * sizeof(std::size_t));
       return evaluation.checked_list(lines_of(self.text(), arguments.take_flag("keepends", false)));
     }},
    {"replace", replace},
    {"join", join},
    {"find", find<false>},
    {"rfind", find<true>},
    {"count", count},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"center", justify<'^'>},
    {"ljust", justify<'<'>},
    {"rjust", justify<'>'>},
    {"zfill", zfill},
    {"isalpha", predicate<is_alpha>},
    {"isalnum", predicate<is_alnum>},
    {"isascii", predicate<is_ascii>},
    {"isdecimal", predicate<is_decimal>},
    {"isdigit", predicate<is_digit>},
    {"isnumeric", predicate<is_numeric>},
    {"isspace", predicate<is_space>},
    {"isupper", predicate<is_upper>},
    {"islower", predicate<is_lower>},
    {"istitle", predicate<is_title>},
    {"swapcase", [](Evaluation& e, const Value& self,
                    ArgumentReader&) { return Value(with_case_swapped(e, self.text())); }},
    {"upper", [](Evaluation& e, const Value& self, ArgumentReader&) { return Value(upper(e, self.text())); }},
    {"lower", [](Evaluation& e, const Value& self, ArgumentReader&) { return Value(lower(e, self.text())); }},
    {"title", [](Evaluation& e, const Value& self, ArgumentReader&) { return Value(title(e, self.text())); }},
    {"capitalize",
     [](Evaluation& e, const Value& self, ArgumentReader&) { return Value(capitalized(e, self.text())); }},
};

Value items(Evaluation& evaluation, const Value& self, ArgumentReader&) {
  List out;
  for (const auto& [key, value] : self.entries()) out.push_back(Value::tuple({key, value}));
  evaluation.charge(out.size() * sizeof(Value));
  return Value::list(std::move(out));
}

Value values(Evaluation& evaluation, const Value& self, ArgumentReader&) {
  List out;
  for (const auto& [key, value] : self.entries()) out.push_back(value);
  evaluation.charge(out.size() * sizeof(Value));
  return Value::list(std::move(out));
}

Value get(Evaluation&, const Value& self, ArgumentReader& arguments) {
  const Value key = arguments.take("key"), otherwise = arguments.take("default", Value());
  const Value* found = self.find(key);
  return found == nullptr ? otherwise : *found;
}

constexpr Method kDictMethods[] = {
    {"items", items},
    {"keys", [](Evaluation& evaluation, const Value& self,
                ArgumentReader&) { return Value::list(elements_of(evaluation, self)); }},
    {"values", values},
    {"get", get},
};

template <std::size_t size>
std::optional<Value> bound(const Method (&methods)[size], const Value& self, std::string_view name) {
  for (const Method& method : methods) {
    if (method.name != name) continue;
    return Value::function(std::string(name),
                           [self, &method](Evaluation& evaluation, const Arguments& given) {
                             ArgumentReader arguments(evaluation, method.name, given);
                             Value out = method.call(evaluation, self, arguments);
                             arguments.finish();
                             return out;
                           });
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_method(const Value& object, std::string_view name) {
  if (object.is_text() && name == "format") {  // its parameters depend on the text
    return Value::function("format", [object](Evaluation& evaluation, const Arguments& given) {
      return Value(brace_formatted(evaluation, object.text(), given));
    });
  }
  if (object.is_text()) return bound(kTextMethods, object, name);
  if (object.is_dict()) return bound(kDictMethods, object, name);
  return std::nullopt;
}

List lines_of(const Text& text, bool with_ends) {
  constexpr std::array<std::uint32_t, 10> kEnds = {'\n', '\r', 0x0B, 0x0C,   0x1C,
                                                   0x1D, 0x1E, 0x85, 0x2028, 0x2029};
  List out;
  const auto at = text.boundaries();
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    const auto character = std::string_view(text.bytes()).substr(at[i], at[i + 1] - at[i]);
    if (std::find(kEnds.begin(), kEnds.end(), code_point(character)) == kEnds.end()) continue;
    const bool two = character == "\r" && text.bytes().compare(at[i + 1], 1, "\n") == 0;
    const std::size_t end = two ? at[++i + 1] : at[i + 1];
    out.emplace_back(text.slice(begin, with_ends ? end : end - character.size() - (two ? 1 : 0)));
    begin = end;
  }
  if (begin < text.size()) out.emplace_back(text.slice(begin, text.size()));
  return out;
}

}  // namespace serval::jinja
