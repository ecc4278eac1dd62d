// docs/isa.md, as it follows from isa.def and the operand structs.
#pragma once

#include <string>

namespace serval {

// Markdown. A test compares the committed page with it; `make docs` writes the page again.
std::string isa_reference();

}  // namespace serval
