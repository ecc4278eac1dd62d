#include "models/jinja/parser.h"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>

#include "models/jinja/expression_parser.h"
#include "models/jinja/token_stream.h"

namespace serval::jinja {
namespace {

constexpr int kMaxDepth = 60;  // blocks in blocks

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::string_view where)
      : tokens_(std::move(tokens), where), expressions_(tokens_) {}

  Body whole() {
    Body out = body({});
    if (!tokens_.sees(Token::Kind::kEnd)) tokens_.fail(fmt::format("unexpected {}", tokens_.peek(1).text));
    return out;
  }

 private:
  // Parses up to the end or to a block with one of these names. Its {% is not taken.
  Body body(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kMaxDepth) tokens_.fail(fmt::format("blocks nested deeper than {}", kMaxDepth));
    Body out;
    while (!tokens_.sees(Token::Kind::kEnd)) {
      if (tokens_.sees(Token::Kind::kData)) {
        out.push_back(std::make_unique<Data>(tokens_.take().text));
      } else if (tokens_.sees(Token::Kind::kVariableBegin)) {
        tokens_.take();
        out.push_back(std::make_unique<Output>(expressions_.tuple()));
        tokens_.expect(Token::Kind::kVariableEnd);
      } else if (is_end(ends)) {
        break;
      } else {
        out.push_back(block());
      }
    }
    --depth_;
    return out;
  }

  bool is_end(std::initializer_list<std::string_view> ends) const {
    const Token& name = tokens_.peek(1);
    return name.kind == Token::Kind::kName && std::find(ends.begin(), ends.end(), name.text) != ends.end();
  }

  // Takes {% and returns the name of the block.
  std::string begin_block() {
    tokens_.expect(Token::Kind::kBlockBegin);
    return tokens_.expect_any_name();
  }
  void end_block() { tokens_.expect(Token::Kind::kBlockEnd); }

  // Parses the body of a block and its end tag.
  Body rest_of_block(std::string_view end) {
    end_block();
    Body out = body({end});
    close(end);
    return out;
  }

  void close(std::string_view end) {
    if (tokens_.sees(Token::Kind::kEnd)) tokens_.fail(fmt::format("the template ends without {}", end));
    begin_block();
    end_block();
  }

  StatementPointer block() {
    const int line = tokens_.line();
    tokens_.expect(Token::Kind::kBlockBegin);
    if (!tokens_.sees(Token::Kind::kName)) tokens_.fail_unexpected("the name of a block");
    const std::string name = tokens_.peek().text;
    if (name == "if") return if_block();
    if (name == "for") return for_block(line);
    if (name == "set") return set_block(line);
    if (name == "macro") return macro_block();
    if (name == "break" || name == "continue") return jump(name);
    if (name == "generation") {
      tokens_.take();
      return std::make_unique<Group>(without_loop([&] { return rest_of_block("endgeneration"); }));
    }
    tokens_.fail(fmt::format("the block {} is not supported here", name));
  }

  StatementPointer if_block() {
    std::vector<If::Branch> branches;
    for (std::string name = "if"; name != "endif"; name = tokens_.peek(1).text) {
      if (!branches.empty()) tokens_.take();  // {%
      tokens_.take();
      ExpressionPointer condition = name == "else" ? nullptr : expressions_.tuple();
      end_block();
      Body then = name == "else" ? body({"endif"}) : body({"elif", "else", "endif"});
      branches.push_back({std::move(condition), std::move(then)});
      if (tokens_.sees(Token::Kind::kEnd)) tokens_.fail("the template ends without endif");
    }
    close("endif");
    return std::make_unique<If>(std::move(branches));
  }

  StatementPointer for_block(int line) {
    tokens_.take();
    Target target = take_target(/*may_be_attribute=*/false);
    tokens_.expect_name("in");
    ExpressionPointer elements = expressions_.tuple_of_operands();
    ExpressionPointer condition = tokens_.take_name("if") ? expressions_.expression() : nullptr;
    if (tokens_.sees_name("recursive")) tokens_.fail("a recursive for is not supported");
    end_block();
    ++loops_;
    Body each = body({"else", "endfor"});
    --loops_;
    Body otherwise;
    if (tokens_.peek(1).text == "else") {
      begin_block();
      end_block();
      otherwise = body({"endfor"});
    }
    close("endfor");
    return std::make_unique<For>(line, std::move(target), std::move(elements), std::move(condition),
                                 std::move(each), std::move(otherwise));
  }

  // a; a, b; (a, b); or namespace.attribute.
  Target take_target(bool may_be_attribute) {
    Target target;
    const bool bracket = tokens_.take_sign("(");
    do {
      target.names.push_back(tokens_.expect_any_name());
    } while (tokens_.take_sign(","));
    if (bracket) tokens_.expect_sign(")");
    if (may_be_attribute && target.names.size() == 1 && tokens_.take_sign("."))
      target.attribute = tokens_.expect_any_name();
    return target;
  }

  StatementPointer set_block(int line) {
    tokens_.take();
    Target target = take_target(/*may_be_attribute=*/true);
    if (tokens_.take_sign("=")) {
      auto out = std::make_unique<Set>(line, std::move(target), expressions_.tuple());
      end_block();
      return out;
    }
    std::vector<SetBlock::FilterCall> filters;
    while (tokens_.take_sign("|")) {
      std::string name = tokens_.expect_any_name();
      ArgumentList arguments = tokens_.sees_sign("(") ? expressions_.arguments() : ArgumentList{};
      filters.push_back({std::move(name), std::move(arguments)});
    }
    Body text = without_loop([&] { return rest_of_block("endset"); });
    return std::make_unique<SetBlock>(line, std::move(target), std::move(filters), std::move(text));
  }

  StatementPointer macro_block() {
    tokens_.take();
    std::string name = tokens_.expect_any_name();
    std::vector<Macro::Parameter> parameters;
    tokens_.expect_sign("(");
    while (!tokens_.take_sign(")")) {
      std::string parameter = tokens_.expect_any_name();
      ExpressionPointer otherwise = tokens_.take_sign("=") ? expressions_.expression() : nullptr;
      parameters.push_back({std::move(parameter), std::move(otherwise)});
      if (!tokens_.sees_sign(")")) tokens_.expect_sign(",");
    }
    Body text = without_loop([&] { return rest_of_block("endmacro"); });
    return std::make_unique<Macro>(std::move(name), std::move(parameters), std::move(text));
  }

  StatementPointer jump(const std::string& name) {
    if (loops_ == 0) tokens_.fail(fmt::format("{} outside of a loop", name));
    tokens_.take();
    end_block();
    return std::make_unique<Jump>(name == "break" ? Flow::kBreak : Flow::kContinue);
  }

  // Calls parse(). Inside it, break and continue cannot refer to an enclosing loop.
  template <typename Parse>
  Body without_loop(Parse parse) {
    const int around = std::exchange(loops_, 0);
    Body out = parse();
    loops_ = around;
    return out;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse(std::vector<Token> tokens, std::string_view where) {
  return Parser(std::move(tokens), where).whole();
}

}  // namespace serval::jinja
