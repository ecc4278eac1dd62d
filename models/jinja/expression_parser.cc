#include "models/jinja/expression_parser.h"

#include <charconv>
#include <fmt/format.h>

namespace serval::jinja {
namespace {

constexpr int kMaxOperations = 800;  // of one expression
constexpr int kMaxDepth = 60;        // brackets in brackets

ExpressionPointer text_constant(int line, std::string text) {
  return std::make_unique<Constant>(line, Text(std::move(text)));
}

}  // namespace

void ExpressionParser::count_operation() {
  if (++operations_ > kMaxOperations)
    tokens_.fail(fmt::format("an expression of more than {} operations", kMaxOperations));
}

ExpressionPointer ExpressionParser::expression() {
  operations_ = 0;
  return nested();
}

// Parses one expression, or a tuple of several. A tuple may end with a comma.
template <typename Parse>
ExpressionPointer ExpressionParser::several(Parse parse) {
  operations_ = 0;
  const int line = tokens_.line();
  ExpressionPointer first = parse();
  if (!tokens_.sees_sign(",")) return first;
  Expressions elements;
  elements.push_back(std::move(first));
  const auto ends = [this] {
    return tokens_.sees(Token::Kind::kBlockEnd) || tokens_.sees(Token::Kind::kVariableEnd) ||
           tokens_.sees_name("if");
  };
  while (tokens_.take_sign(",")) {
    if (ends()) break;
    count_operation();
    elements.push_back(parse());
  }
  return std::make_unique<ListLiteral>(line, std::move(elements), /*tuple=*/true);
}

ExpressionPointer ExpressionParser::tuple() {
  return several([this] { return nested(); });
}

ExpressionPointer ExpressionParser::tuple_of_operands() {
  return several([this] { return disjunction(); });
}

ExpressionPointer ExpressionParser::nested() {
  if (++depth_ > kMaxDepth) tokens_.fail(fmt::format("an expression nested deeper than {}", kMaxDepth));
  ExpressionPointer out = conditional();
  --depth_;
  return out;
}

ExpressionPointer ExpressionParser::conditional() {
  ExpressionPointer then = disjunction();
  while (tokens_.sees_name("if")) {
    const int line = tokens_.line();
    count_operation();
    tokens_.take();
    ExpressionPointer condition = disjunction();
    ExpressionPointer otherwise = tokens_.take_name("else") ? nested() : nullptr;
    then = std::make_unique<Conditional>(line, std::move(then), std::move(condition), std::move(otherwise));
  }
  return then;
}

ExpressionPointer ExpressionParser::disjunction() {
  ExpressionPointer left = conjunction();
  while (tokens_.sees_name("or")) {
    const int line = tokens_.take().line;
    count_operation();
    ExpressionPointer right = conjunction();
    left = std::make_unique<Logical>(line, /*is_and=*/false, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPointer ExpressionParser::conjunction() {
  ExpressionPointer left = negation();
  while (tokens_.sees_name("and")) {
    const int line = tokens_.take().line;
    count_operation();
    ExpressionPointer right = negation();
    left = std::make_unique<Logical>(line, /*is_and=*/true, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  if (!tokens_.sees_name("not")) return comparison();
  const int line = tokens_.take().line;
  count_operation();
  return std::make_unique<Not>(line, negation());
}

// Takes the sign of a comparison; empty if none follows.
std::string ExpressionParser::sign_of_comparison() {
  for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (tokens_.take_sign(sign)) return sign;
  }
  if (tokens_.take_name("in")) return "in";
  if (!tokens_.sees_name("not") || tokens_.peek(1).kind != Token::Kind::kName || tokens_.peek(1).text != "in")
    return "";
  tokens_.take();
  tokens_.take();
  return "not in";
}

ExpressionPointer ExpressionParser::comparison() {
  const int line = tokens_.line();
  ExpressionPointer first = sum();
  std::vector<std::pair<std::string, ExpressionPointer>> rest;
  for (std::string sign = sign_of_comparison(); !sign.empty(); sign = sign_of_comparison()) {
    count_operation();
    rest.emplace_back(std::move(sign), sum());
  }
  if (rest.empty()) return first;
  return std::make_unique<Comparison>(line, std::move(first), std::move(rest));
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (tokens_.sees_sign("+") || tokens_.sees_sign("-")) {
    const Token sign = tokens_.take();
    count_operation();
    left = std::make_unique<Binary>(sign.line, sign.text, std::move(left), concatenation());
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  ExpressionPointer left = product();
  while (tokens_.sees_sign("~")) {
    const Token sign = tokens_.take();
    count_operation();
    left = std::make_unique<Binary>(sign.line, sign.text, std::move(left), product());
  }
  return left;
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer left = power();
  while (tokens_.sees_sign("*") || tokens_.sees_sign("/") || tokens_.sees_sign("//") ||
         tokens_.sees_sign("%")) {
    const Token sign = tokens_.take();
    count_operation();
    left = std::make_unique<Binary>(sign.line, sign.text, std::move(left), power());
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = signed_operand(/*with_filters=*/true);
  while (tokens_.sees_sign("**")) {
    const Token sign = tokens_.take();
    count_operation();
    left = std::make_unique<Binary>(sign.line, sign.text, std::move(left),
                                    signed_operand(/*with_filters=*/true));
  }
  return left;
}

ExpressionPointer ExpressionParser::signed_operand(bool filters) {
  ExpressionPointer out;
  if (tokens_.sees_sign("-") || tokens_.sees_sign("+")) {
    const Token sign = tokens_.take();
    count_operation();
    out = std::make_unique<Negation>(sign.line, sign.text == "-", signed_operand(/*with_filters=*/false));
  } else {
    out = primary();
  }
  out = with_postfix(std::move(out));
  return filters ? with_filters(std::move(out)) : std::move(out);
}

ExpressionPointer ExpressionParser::primary() {
  switch (tokens_.peek().kind) {
    case Token::Kind::kName:
      return constant_or_name();
    case Token::Kind::kText:
      return text();
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return number();
    default:
      break;
  }
  if (tokens_.sees_sign("(")) return parenthesised();
  if (tokens_.sees_sign("[")) return list();
  if (tokens_.sees_sign("{")) return dict();
  tokens_.fail_unexpected("an expression");
}

ExpressionPointer ExpressionParser::constant_or_name() {
  const Token name = tokens_.take();
  if (name.text == "true" || name.text == "True") return std::make_unique<Constant>(name.line, true);
  if (name.text == "false" || name.text == "False") return std::make_unique<Constant>(name.line, false);
  if (name.text == "none" || name.text == "None") return std::make_unique<Constant>(name.line, Value());
  return std::make_unique<Name>(name.line, name.text);
}

ExpressionPointer ExpressionParser::text() {
  const int line = tokens_.line();
  std::string all;
  while (tokens_.sees(Token::Kind::kText)) all += tokens_.take().text;
  return text_constant(line, std::move(all));
}

ExpressionPointer ExpressionParser::number() {
  const Token token = tokens_.peek();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  std::int64_t whole = 0;
  double real = 0;
  const bool is_whole = token.kind == Token::Kind::kInteger;
  constexpr int kDecimal = 10;
  int base = kDecimal;
  for (const auto& [letter, its_base] : {std::pair('x', 16), {'o', 8}, {'b', 2}}) {
    if (token.text.size() > 2 && token.text[1] == letter) base = its_base;
  }
  if (base != kDecimal) begin += 2;
  const auto result = is_whole ? std::from_chars(begin, end, whole, base) : std::from_chars(begin, end, real);
  if (result.ec != std::errc() || result.ptr != end) tokens_.fail("a number out of range");
  tokens_.take();
  return std::make_unique<Constant>(token.line, is_whole ? Value(whole) : Value(real));
}

ExpressionPointer ExpressionParser::parenthesised() {
  const int line = tokens_.take().line;
  Expressions elements;
  bool tuple = tokens_.sees_sign(")");
  while (!tokens_.take_sign(")")) {
    elements.push_back(nested());
    if (tokens_.take_sign(",")) {
      tuple = true;
    } else if (!tokens_.sees_sign(")")) {
      tokens_.fail_unexpected(")");
    }
  }
  if (!tuple) return std::move(elements[0]);
  return std::make_unique<ListLiteral>(line, std::move(elements), /*tuple=*/true);
}

ExpressionPointer ExpressionParser::list() {
  const int line = tokens_.take().line;
  Expressions elements;
  while (!tokens_.take_sign("]")) {
    elements.push_back(nested());
    if (!tokens_.sees_sign("]")) tokens_.expect_sign(",");
  }
  return std::make_unique<ListLiteral>(line, std::move(elements), /*tuple=*/false);
}

ExpressionPointer ExpressionParser::dict() {
  const int line = tokens_.take().line;
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
  while (!tokens_.take_sign("}")) {
    ExpressionPointer key = nested();
    tokens_.expect_sign(":");
    entries.emplace_back(std::move(key), nested());
    if (!tokens_.sees_sign("}")) tokens_.expect_sign(",");
  }
  return std::make_unique<DictLiteral>(line, std::move(entries));
}

ExpressionPointer ExpressionParser::with_postfix(ExpressionPointer object) {
  for (;;) {
    if (tokens_.sees_sign(".")) {
      object = member(std::move(object));
    } else if (tokens_.sees_sign("[")) {
      object = subscript(std::move(object));
    } else if (tokens_.sees_sign("(")) {
      const int line = tokens_.line();
      ArgumentList given = arguments();
      object = std::make_unique<Call>(line, std::move(object), std::move(given));
    } else {
      return object;
    }
    count_operation();
  }
}

ExpressionPointer ExpressionParser::member(ExpressionPointer object) {
  const int line = tokens_.take().line;
  const bool is_name = tokens_.sees(Token::Kind::kName);
  if (!is_name && !tokens_.sees(Token::Kind::kInteger)) tokens_.fail_unexpected("a name");
  ExpressionPointer key = is_name ? text_constant(line, tokens_.take().text) : number();
  return std::make_unique<Member>(line, std::move(object), std::move(key), /*dotted=*/true);
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer object) {
  const int line = tokens_.take().line;
  const auto bound = [this] { return tokens_.sees_sign(":") || tokens_.sees_sign("]") ? nullptr : nested(); };
  ExpressionPointer begin = bound();
  if (tokens_.take_sign("]")) {
    if (!begin) tokens_.fail("an empty []");
    return std::make_unique<Member>(line, std::move(object), std::move(begin), /*dotted=*/false);
  }
  tokens_.expect_sign(":");
  ExpressionPointer end = bound();
  ExpressionPointer step = tokens_.take_sign(":") ? bound() : nullptr;
  tokens_.expect_sign("]");
  return std::make_unique<Slice>(line, std::move(object), std::move(begin), std::move(end), std::move(step));
}

ArgumentList ExpressionParser::arguments() {
  ArgumentList out;
  tokens_.expect_sign("(");
  while (!tokens_.take_sign(")")) {
    const bool named = tokens_.sees(Token::Kind::kName) && tokens_.peek(1).kind == Token::Kind::kOperator &&
                       tokens_.peek(1).text == "=";
    if (named) {
      std::string name = tokens_.expect_any_name();
      tokens_.take();
      out.named.emplace_back(std::move(name), nested());
    } else if (out.named.empty()) {
      out.positional.push_back(nested());
    } else {
      tokens_.fail("an argument without a name after one with a name");
    }
    if (!tokens_.sees_sign(")")) tokens_.expect_sign(",");
  }
  return out;
}

ExpressionPointer ExpressionParser::with_filters(ExpressionPointer input) {
  for (;;) {
    if (tokens_.sees_sign("|")) {
      input = filter(std::move(input));
    } else if (tokens_.sees_name("is")) {
      input = test(std::move(input));
    } else if (tokens_.sees_sign("(")) {
      const int line = tokens_.line();
      ArgumentList given = arguments();
      input = std::make_unique<Call>(line, std::move(input), std::move(given));
    } else {
      return input;
    }
    count_operation();
  }
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer input) {
  const int line = tokens_.take().line;
  std::string name = tokens_.expect_any_name();
  ArgumentList given = tokens_.sees_sign("(") ? arguments() : ArgumentList{};
  return std::make_unique<Filter>(line, std::move(name), std::move(input), std::move(given));
}

ExpressionPointer ExpressionParser::test(ExpressionPointer input) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.take_name("not");
  std::string name = tokens_.expect_any_name();
  ArgumentList given = test_arguments();
  ExpressionPointer out = std::make_unique<Test>(line, std::move(name), std::move(input), std::move(given));
  return negated ? std::make_unique<Not>(line, std::move(out)) : std::move(out);
}

// Arguments in parentheses, or a single one without them.
ArgumentList ExpressionParser::test_arguments() {
  if (tokens_.sees_sign("(")) return arguments();
  ArgumentList out;
  for (const char* word : {"else", "or", "and", "if", "is", "in", "not"}) {
    if (tokens_.sees_name(word)) return out;
  }
  const Token::Kind kind = tokens_.peek().kind;
  const bool operand = kind == Token::Kind::kName || kind == Token::Kind::kText ||
                       kind == Token::Kind::kInteger || kind == Token::Kind::kFloat ||
                       tokens_.sees_sign("[") || tokens_.sees_sign("{");
  if (operand) out.positional.push_back(with_postfix(primary()));
  return out;
}

}  // namespace serval::jinja
