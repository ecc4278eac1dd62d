// The API's error lines begin with a field's name; command-line users gave a flag or a variable.
#pragma once

#include <string>

#include "engine/cli/flags/arguments.h"

namespace serval::cli {

// Replaces the field's name at the beginning of `line` by the form in which it was given: "--ctx-size: …" for
// "context: …", or "SERVAL_CTX_SIZE: …" if the flag is not among the arguments and its variable is set. Does
// not change other lines, nor those of fields that were not given but follow from others.
std::string in_flag_words(const std::string& line, const Arguments& arguments);

}  // namespace serval::cli
