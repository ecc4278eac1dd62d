// The tokens of a template with the parser's position.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/jinja/lexer.h"

namespace serval::jinja {

class TokenStream {
 public:
  // The last token must be a kEnd. `where` must outlive the stream.
  TokenStream(std::vector<Token> tokens, std::string_view where)
      : tokens_(std::move(tokens)), where_(where) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  int line() const { return peek().line; }

  bool sees(Token::Kind kind) const { return peek().kind == kind; }
  bool sees_sign(std::string_view sign) const { return sees(Token::Kind::kOperator) && peek().text == sign; }
  bool sees_name(std::string_view name) const { return sees(Token::Kind::kName) && peek().text == name; }
  bool take_sign(std::string_view sign);
  bool take_name(std::string_view name);

  // These fail if another token follows.
  void expect(Token::Kind kind);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);
  std::string expect_any_name();

  [[noreturn]] void fail(std::string_view what) const;
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::string_view where_;
};

}  // namespace serval::jinja
