#include "models/jinja/formatting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "models/jinja/operators.h"
#include "models/tokenizer/unicode.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 10'000, kMaxPrecision = 100, kDefaultPrecision = 6;

// A parsed format specification. Both kinds of formats use it.
struct Style {
  Text fill = Text(" ");
  char alignment = '\0';  // '<', '>', '^', '=' (fill after the sign); '\0': the default of the value's type
  char sign = '-';        // sign before non-negative numbers: '+', ' ', or '-' for none
  bool has_sign = false;
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = '\0';
  std::optional<std::int64_t> precision = {};
  char type = '\0';
};

// Reads the text of a format.
class Reader {
 public:
  Reader(Evaluation& evaluation, const Text& text) : evaluation_(evaluation), text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  std::size_t at() const { return at_; }
  char peek() const { return at_end() ? '\0' : text_.bytes()[at_]; }
  char take() {
    if (at_end()) evaluation_.fail("a format that ends too early");
    return text_.bytes()[at_++];
  }
  bool take(char wanted) {
    const bool found = !at_end() && peek() == wanted;
    at_ += found ? 1 : 0;
    return found;
  }
  Text character() {
    const std::size_t begin = at_;
    at_ += first_character(std::string_view(text_.bytes()).substr(at_)).size();
    return text_.slice(begin, at_);
  }
  bool sees_digit() const { return peek() >= '0' && peek() <= '9'; }
  std::int64_t number(std::int64_t most) {
    std::int64_t value = 0;
    while (sees_digit()) {
      value = value * 10 + (take() - '0');
      if (value > most) evaluation_.fail(fmt::format("a number in a format; limit: {}", most));
    }
    return value;
  }
  Text until(std::string_view ends) {
    const std::size_t begin = at_;
    at_ = std::min(text_.bytes().find_first_of(ends, at_), text_.size());
    return text_.slice(begin, at_);
  }
  void back_to(std::size_t at) { at_ = at; }

 private:
  Evaluation& evaluation_;
  const Text& text_;
  std::size_t at_ = 0;
};

std::string grouped(std::string digits, char separator, std::size_t size) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (std::size_t at = whole; at > size; at -= size) digits.insert(at - size, 1, separator);
  return digits;
}

// The digits of a number without its sign.
std::string digits_of(Evaluation& evaluation, double value, const Style& style) {
  const std::int64_t precision = style.precision.value_or(kDefaultPrecision);
  const bool capitals = style.type == 'E' || style.type == 'F' || style.type == 'G';
  if (!std::isfinite(value)) return std::isnan(value) ? (capitals ? "NAN" : "nan") : capitals ? "INF" : "inf";
  switch (style.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    case 'g':
      return fmt::format("{:.{}g}", value, std::max<std::int64_t>(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", value, std::max<std::int64_t>(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    case '\0':
      if (!style.precision) return float_text(value);
      break;
    default:
      break;
  }
  evaluation.fail(
      fmt::format("the format {} of a float is not supported", in_quotes(std::string(1, style.type))));
}

std::string digits_of(Evaluation& evaluation, std::uint64_t value, const Style& style) {
  switch (style.type) {
    case '\0':
    case 'd':
    case 'i':
    case 'u':
      return fmt::format("{}", value);
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'b':
      return fmt::format("{:b}", value);
    default:
      evaluation.fail(
          fmt::format("the format {} of an int is not supported", in_quotes(std::string(1, style.type))));
  }
}

Text aligned(Evaluation& evaluation, const Text& text, const Style& style, char usual) {
  return padded(evaluation, text, style.width, style.fill, style.alignment == '\0' ? usual : style.alignment);
}

bool is_float_type(char type) {
  return type != '\0' && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}

Text number_text(Evaluation& evaluation, const Value& value, const Style& style) {
  const bool is_float = value.is_float() || is_float_type(style.type);
  const bool negative = is_float ? std::signbit(value.real()) : value.whole() < 0;
  const std::uint64_t magnitude = is_float ? 0
                                           : (negative ? ~static_cast<std::uint64_t>(value.whole()) + 1
                                                       : static_cast<std::uint64_t>(value.whole()));
  std::string digits = is_float ? digits_of(evaluation, std::abs(value.real()), style)
                                : digits_of(evaluation, magnitude, style);
  const bool in_powers_of_two =
      std::string_view("xXob").find(style.type) != std::string_view::npos && style.type != '\0';
  constexpr std::size_t kThousands = 3, kNibbles = 4;
  if (style.grouping == ',' && (in_powers_of_two || style.type == 'c'))
    evaluation.fail("format: ',' is for decimal digits");
  if (style.grouping != '\0')
    digits = grouped(digits, style.grouping, in_powers_of_two ? kNibbles : kThousands);
  std::string before = negative ? "-" : style.sign == '-' ? "" : std::string(1, style.sign);
  if (style.alternate && in_powers_of_two) before += std::string("0") + style.type;
  if (style.alignment != '=') return aligned(evaluation, Text(before + digits), style, '>');
  if (style.grouping != '\0') evaluation.fail("a format with zeros and separators is not supported");
  const auto room = style.width - static_cast<std::int64_t>(before.size());
  return Text(before) + padded(evaluation, Text(digits), room, style.fill, '>');
}

Text text_text(Evaluation& evaluation, Text text, const Style& style) {
  if (style.precision) {
    const auto at = text.boundaries();
    const auto most = static_cast<std::size_t>(*style.precision);
    if (most + 1 < at.size()) text = text.slice(0, at[most]);
  }
  return aligned(evaluation, text, style, '<');
}

// ---- format % values

class PercentFormat {
 public:
  PercentFormat(Evaluation& evaluation, const Text& format, const Value& values)
      : evaluation_(evaluation), format_(format), values_(values), reader_(evaluation, format) {}

  Text run() {
    Text out;
    while (!reader_.at_end()) {
      const std::size_t begin = reader_.at();
      reader_.until("%");
      out.append(format_.slice(begin, reader_.at()));
      if (!reader_.take('%')) break;
      out.append(reader_.take('%') ? Text("%") : one());
      evaluation_.charge(out.size());
    }
    const bool by_name = values_.is_dict() || (values_.is_list() && !values_.is_tuple());
    const std::size_t count = values_.is_tuple() ? values_.elements().size() : 1;
    if (!by_name && next_ < count) evaluation_.fail("%: not all values are used in the format");
    return evaluation_.checked(Value(out)).text();
  }

 private:
  Value next_value() {
    const std::size_t at = next_++;
    if (values_.is_tuple() && at < values_.elements().size()) return values_.elements()[at];
    if (!values_.is_tuple() && at == 0) return values_;
    evaluation_.fail("%: the format needs more values");
  }

  Text one() {
    std::optional<Value> named;
    if (reader_.take('(')) {
      const Text name = reader_.until(")");
      if (!reader_.take(')')) evaluation_.fail("%: a name without ')'");
      if (!values_.is_dict()) evaluation_.fail("%: a name needs a dict");
      const Value* found = values_.find(name.bytes());
      if (found == nullptr) evaluation_.fail(fmt::format("%: no value {}", in_quotes(name.bytes())));
      named = *found;
    }
    const Style style = read_style();
    return written(named ? *named : next_value(), style);
  }

  Style read_style() {
    Style style;
    bool zeros = false, left = false;
    for (bool more = true; more;) {
      const char flag = reader_.peek();
      more = flag == '-' || flag == '0' || flag == '+' || flag == ' ' || flag == '#';
      if (!more) break;
      reader_.take();
      left |= flag == '-';
      zeros |= flag == '0';
      style.alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && style.sign == '-')) style.sign = flag;
    }
    style.width = count_or_value(kMaxWidth);
    if (reader_.take('.')) style.precision = std::max<std::int64_t>(count_or_value(kMaxPrecision), 0);
    for (const char c : {'h', 'l', 'L'}) reader_.take(c);
    style.type = reader_.take();
    left |= style.width < 0;
    style.width = std::abs(style.width);
    style.alignment = left ? '<' : '>';
    const bool is_number = std::string_view("diuxXoeEfFgG").find(style.type) != std::string_view::npos;
    if (zeros && !left && is_number) {
      style.fill = Text("0");
      style.alignment = '=';
    }
    return style;
  }

  std::int64_t count_or_value(std::int64_t most) {
    if (!reader_.take('*')) return reader_.number(most);
    const Value value = next_value();
    if (!value.is_integer() || std::abs(value.whole()) > most) evaluation_.fail("%: * needs a small int");
    return value.whole();
  }

  Text written(const Value& value, Style style) {
    switch (style.type) {
      case 's':
        return text_text(evaluation_, to_text(value), style);
      case 'r':
        return text_text(evaluation_, to_repr(value), style);
      case 'c':
        return character(value, style);
      default:
        break;
    }
    const bool is_whole = std::string_view("diu").find(style.type) != std::string_view::npos;
    const bool is_coded = std::string_view("xXo").find(style.type) != std::string_view::npos;
    if (!is_whole && !is_coded && (!is_float_type(style.type) || style.type == '%'))
      evaluation_.fail(
          fmt::format("%: the format {} is not supported", in_quotes(std::string(1, style.type))));
    if (!value.is_number() || (is_coded && value.is_float()))
      evaluation_.fail(fmt::format("%{}: a number is needed, not a {}", style.type, type_name(value)));
    if (is_float_type(style.type)) {
      if (style.alternate) evaluation_.fail("%: # before a float is not supported");
      return number_text(evaluation_, value, style);
    }
    if (style.precision) evaluation_.fail("%: a precision of an int is not supported");
    constexpr double kLimit = 9.2e18;
    if (value.is_float() && !(std::abs(value.real()) < kLimit))
      evaluation_.fail("an integer of more than 64 bits");
    const Value whole =
        value.is_float() ? Value(static_cast<std::int64_t>(value.real())) : Value(value.whole());
    return number_text(evaluation_, whole, style);
  }

  Text character(const Value& value, const Style& style) {
    std::string bytes;
    if (value.is_text() && value.text().characters() == 1)
      return aligned(evaluation_, value.text(), style, '>');
    constexpr std::int64_t kLast = 0x10FFFF;
    const bool is_code = value.is_integer() && value.whole() >= 0 && value.whole() <= kLast;
    if (!is_code || !append_utf8(static_cast<std::uint32_t>(value.whole()), &bytes))
      evaluation_.fail("%c: an int or one character is needed");
    return aligned(evaluation_, Text(bytes), style, '>');
  }

  Evaluation& evaluation_;
  const Text& format_;
  const Value& values_;
  Reader reader_;
  std::size_t next_ = 0;
};

// ---- format.format(…)

class BraceFormat {
 public:
  BraceFormat(Evaluation& evaluation, const Arguments& given) : evaluation_(evaluation), given_(given) {}

  Text run(const Text& format, int depth = 0) {
    Reader reader(evaluation_, format);
    Text out;
    while (!reader.at_end()) {
      out.append(reader.until("{}"));
      if (reader.at_end()) break;
      const char bracket = reader.take();
      if (reader.take(bracket)) {
        out.append(Text(std::string(1, bracket)));
        continue;
      }
      if (bracket == '}') evaluation_.fail("format: '}' without '{'");
      out.append(field(reader, depth));
      evaluation_.charge(out.size());
    }
    return evaluation_.checked(Value(out)).text();
  }

 private:
  Text field(Reader& reader, int depth) {
    Value value = value_of(reader);
    if (reader.take('!')) {
      const char kind = reader.take();
      if (kind != 's' && kind != 'r') evaluation_.fail("format: after '!' s or r is supported");
      value = kind == 's' ? to_text(value) : to_repr(value);
    }
    Text style;
    if (reader.take(':')) style = style_of(reader, depth);
    if (!reader.take('}')) evaluation_.fail("format: expected '}'");
    return written(value, style);
  }

  // The format after ':', which may contain values in braces.
  Text style_of(Reader& reader, int depth) {
    Text style;
    for (;;) {
      style.append(reader.until("{}"));
      if (reader.peek() != '{') return style;
      reader.take();
      if (depth > 0) evaluation_.fail("format: values nested deeper than 2");
      style.append(field(reader, depth + 1));
    }
  }

  Value value_of(Reader& reader) {
    const std::string name = reader.until(".[!:}{").bytes();
    Value value = named(name, reader.peek() != '.' && reader.peek() != '[');
    for (;;) {
      if (reader.take('.')) {
        value = attribute(evaluation_, value, reader.until(".[!:}{").bytes());
      } else if (reader.take('[')) {
        const std::string key = reader.until("]").bytes();
        if (!reader.take(']')) evaluation_.fail("format: '[' without ']'");
        const auto index = number_in(key);
        value = item(evaluation_, value, index ? Value(*index) : Value(Text(key)));
      } else {
        return value;
      }
    }
  }

  static std::optional<std::int64_t> number_in(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
    return whole ? std::optional(number) : std::nullopt;
  }

  // `is_plain`: no attribute or index follows.
  Value named(const std::string& name, bool is_plain) {
    const auto index = number_in(name);
    if (name.empty() && !is_plain) evaluation_.fail("format: an attribute of nothing");
    if (!name.empty() && !index) {
      for (const auto& [given, value] : given_.named)
        if (given == name) return value;
      evaluation_.fail(fmt::format("format: no value {}", in_quotes(name)));
    }
    const bool counts = name.empty();
    if (is_plain && counts_ && *counts_ != counts) evaluation_.fail("format: both {} and {0}");
    if (is_plain) counts_ = counts;
    const auto at = counts ? next_++ : static_cast<std::size_t>(*index);
    if (at >= given_.positional.size()) evaluation_.fail(fmt::format("format: no value {}", at));
    return given_.positional[at];
  }

  Text written(const Value& value, const Text& format) {
    if (format.empty()) return to_text(value);
    const Style style = read_style(format, value);
    if (value.is_number()) return number_text(evaluation_, value, style);
    if (!value.is_text()) evaluation_.fail(fmt::format("format: a {} takes no format", type_name(value)));
    const bool fits = (style.type == '\0' || style.type == 's') && !style.has_sign &&
                      style.alignment != '=' && style.grouping == '\0' && !style.alternate;
    if (!fits) evaluation_.fail("format: not a format of a str");
    return text_text(evaluation_, value.text(), style);
  }

  // [[fill]align][sign][#][0][width][grouping][.precision][type]
  Style read_style(const Text& format, const Value& value) {
    constexpr std::string_view kAlignments = "<>^=";
    const auto aligns = [&](char c) { return c != '\0' && kAlignments.find(c) != kAlignments.npos; };
    Reader reader(evaluation_, format);
    Style style;
    const Text fill = reader.character();
    const bool has_fill = aligns(reader.peek());
    if (has_fill) {
      style.fill = fill;
      style.alignment = reader.take();
    } else {
      reader.back_to(0);
      if (aligns(reader.peek())) style.alignment = reader.take();
    }
    for (const char sign : {'+', '-', ' '})
      if (!style.has_sign && reader.take(sign)) {
        style.sign = sign;
        style.has_sign = true;
      }
    style.alternate = reader.take('#');
    if (reader.take('0')) {
      if (!has_fill) style.fill = Text("0");
      if (style.alignment == '\0') style.alignment = value.is_text() ? '<' : '=';
    }
    style.width = reader.number(kMaxWidth);
    for (const char separator : {',', '_'})
      if (reader.take(separator)) style.grouping = separator;
    if (reader.take('.')) {
      if (!reader.sees_digit()) evaluation_.fail("format: '.' without a precision");
      style.precision = reader.number(kMaxPrecision);
    }
    if (!reader.at_end()) style.type = reader.take();
    if (!reader.at_end()) evaluation_.fail("format: unknown characters at the end of a format");
    const bool is_whole = !value.is_float() && value.is_number() && !is_float_type(style.type);
    if (is_whole && style.precision) evaluation_.fail("format: an int has no precision");
    return style;
  }

  Evaluation& evaluation_;
  const Arguments& given_;
  std::optional<bool> counts_;  // true: fields are "{}"; false: "{0}"; empty: neither has been seen
  std::size_t next_ = 0;
};

}  // namespace

Text padded(Evaluation& evaluation, const Text& text, std::int64_t width, const Text& fill, char alignment) {
  const auto missing = width - static_cast<std::int64_t>(text.characters());
  if (missing <= 0) return text;
  if (width > kMaxWidth) evaluation.fail(fmt::format("a width of {}; limit: {}", width, kMaxWidth));
  evaluation.charge(static_cast<std::size_t>(missing) * fill.size());
  const std::int64_t before = alignment == '<' ? 0 : alignment == '^' ? missing / 2 : missing;
  Text out;
  for (std::int64_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::int64_t i = before; i < missing; ++i) out.append(fill);
  return out;
}

Text percent_formatted(Evaluation& evaluation, const Text& format, const Value& values) {
  return PercentFormat(evaluation, format, values).run();
}

Text brace_formatted(Evaluation& evaluation, const Text& format, const Arguments& given) {
  return BraceFormat(evaluation, given).run(format);
}

}  // namespace serval::jinja
