// The commands of the executable. Each takes the arguments after its name and returns the exit code. Errors
// are exceptions, which main turns into one line and an exit code.
#pragma once

#include "engine/cli/flags/arguments.h"

namespace serval::cli {

int run_generate(const Arguments& arguments);
int run_chat(const Arguments& arguments);
int run_schedule(const Arguments& arguments);
int run_validate(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_info(const Arguments& arguments);
int run_models(const Arguments& arguments);
int run_quantize(const Arguments& arguments);
int run_embed(const Arguments& arguments);
int run_score(const Arguments& arguments);
int run_verify(const Arguments& arguments);
int run_serve(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_detokenize(const Arguments& arguments);

}  // namespace serval::cli
