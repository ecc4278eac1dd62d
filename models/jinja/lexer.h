// A template's text as tokens.
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
  std::string text;  // of data, a string without its quotes and escapes, a name, a number or an operator
  int line;          // from 1
};

// With trim_blocks and lstrip_blocks; the last line's end is dropped, as Jinja does. Ends with a kEnd. Throws
// Error(kRuntime), "WHERE: line N: …".
std::vector<Token> tokenize(std::string_view source, std::string_view where);

}  // namespace serval::jinja
