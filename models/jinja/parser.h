// Tokens as a program.
#pragma once

#include <string_view>
#include <vector>

#include "models/jinja/lexer.h"
#include "models/jinja/statement.h"

namespace serval::jinja {

// Throws Error(kRuntime), "WHERE: line N: …", also for what Jinja has and this does not.
Body parse(std::vector<Token> tokens, std::string_view where);

}  // namespace serval::jinja
