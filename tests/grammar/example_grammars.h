// Grammars of the kinds that llama.cpp ships as examples, with texts.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace serval::testing {

struct ExampleGrammar {
  const char* name;
  std::string grammar;
  std::vector<const char*> texts;   // complete texts of the grammar
  std::vector<const char*> others;  // texts that are not
};

std::span<const ExampleGrammar> example_grammars();

}  // namespace serval::testing
