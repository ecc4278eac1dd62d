// The API's error lines begin with the name of a field; a person has given a flag or a variable.
#pragma once

#include <string>

#include "engine/cli/flags/arguments.h"

namespace serval::cli {

// `line` with the field it begins with named as it was given: "--ctx-size: …" for "context: …", or
// "SERVAL_CTX_SIZE: …" where the flag is not among the arguments and its variable is set. Other lines stay,
// as do those of fields that were not given at all but follow from others.
std::string in_flag_words(const std::string& line, const Arguments& arguments);

}  // namespace serval::cli
