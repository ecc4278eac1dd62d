// Splits a template's text into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace serval::jinja {

struct Token {
  enum class Kind {
    kData,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kText,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;  // data, a string without quotes and escapes, a name, a number or an operator
  int line;          // from 1
};

// Applies trim_blocks and lstrip_blocks, and drops a line end at the end of the text, as Jinja does. The last
// token is a kEnd. Throws Error(kRuntime), "WHERE: line N: …".
std::vector<Token> tokenize(std::string_view source, std::string_view where);

}  // namespace serval::jinja
