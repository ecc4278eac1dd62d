// docs/isa.md, generated from isa.def and the operand structs.
#pragma once

#include <string>

namespace serval {

// Returns Markdown. A test compares the committed page with it; `make docs` writes the page.
std::string isa_reference();

}  // namespace serval
