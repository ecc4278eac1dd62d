#include "models/jinja/token_stream.h"

#include <fmt/format.h>

#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

std::string described(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kData:
      return "text";
    case Token::Kind::kBlockBegin:
      return "{%";
    case Token::Kind::kBlockEnd:
      return "%}";
    case Token::Kind::kVariableBegin:
      return "{{";
    case Token::Kind::kVariableEnd:
      return "}}";
    case Token::Kind::kEnd:
      return "the end of the template";
    default:
      return in_quotes(token.text);
  }
}

}  // namespace

bool TokenStream::take_sign(std::string_view sign) {
  if (!sees_sign(sign)) return false;
  take();
  return true;
}

bool TokenStream::take_name(std::string_view name) {
  if (!sees_name(name)) return false;
  take();
  return true;
}

void TokenStream::expect(Token::Kind kind) {
  if (!sees(kind)) fail_unexpected(described({kind, "", 0}));
  take();
}

void TokenStream::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) fail_unexpected(sign);
}

void TokenStream::expect_name(std::string_view name) {
  if (!take_name(name)) fail_unexpected(name);
}

std::string TokenStream::expect_any_name() {
  if (!sees(Token::Kind::kName)) fail_unexpected("a name");
  return take().text;
}

void TokenStream::fail(std::string_view what) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: line {}: {}", where_, line(), what));
}

void TokenStream::fail_unexpected(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, described(peek())));
}

}  // namespace serval::jinja
