// Parses tokens into statements.
#pragma once

#include <string_view>
#include <vector>

#include "models/jinja/lexer.h"
#include "models/jinja/statement.h"

namespace serval::jinja {

// Throws Error(kRuntime), "WHERE: line N: …", for wrong syntax and for parts of Jinja that are not supported.
Body parse(std::vector<Token> tokens, std::string_view where);

}  // namespace serval::jinja
