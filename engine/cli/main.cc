// serval: selects the command, and turns errors into one line and an exit code (docs/cli.md lists them).
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "fmt/format.h"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/flag_words.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "vm/base/error.h"
#include "vm/base/version.h"

namespace serval::cli {
namespace {

constexpr int kClosedPipeExit = 141;  // 128 + SIGPIPE, as if the signal had ended the program

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"generate", "continue one or several prompts", run_generate},
    {"chat", "talk with the model", run_chat},
    {"serve", "answer requests over HTTP, as OpenAI's clients make them", run_serve},
    {"embed", "print the embeddings of texts", run_embed},
    {"score", "print the log-probabilities of texts", run_score},
    {"schedule", "compile a model and print the program or its statistics", run_schedule},
    {"validate", "prove that a program may run, or print why not", run_validate},
    {"bench", "measure the speed of prompts and of generation", run_bench},
    {"profile", "show where a token's time goes, or compare two traces", run_profile},
    {"tokenize", "print the token ids of a text", run_tokenize},
    {"detokenize", "print the text of token ids", run_detokenize},
    {"info", "facts about a model and this machine", run_info},
    {"models", "list the models in a cache and a folder", run_models},
    {"quantize", "write a model with weights of 8 or 4 bits", run_quantize},
    {"verify", "compare the model's logits with a reference's", run_verify},
};

std::string overview() {
  std::string text =
      "Runs language models of the Llama family as programs for an interpreter.\n\n"
      "Usage: serval COMMAND [FLAGS]\n\nCommands\n";
  for (const Command& command : kCommands)
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return text +
         "\nFlags\n  -h --help     this text; serval COMMAND --help for a command's flags\n"
         "  --version     the program's version\n"
         "\nExamples\n  serval generate -p 'Once upon a time'\n  serval chat\n"
         "  serval generate -m path/to/Llama-3.2-1B -p 'The capital of France is' -n 32 --temp 0\n";
}

int run_command(const std::string& name, const Arguments& arguments) {
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(arguments);
  }
  throw Error(ErrorKind::kUsage, fmt::format("'{}' is not a command; see serval --help", name));
}

int run(const Arguments& arguments) {
  if (arguments.empty()) throw Error(ErrorKind::kUsage, "no command given; see serval --help");
  const std::string& first = arguments.front();
  if (first == "-h" || first == "--help") {
    write_stdout(overview());
  } else if (first == "--version") {
    write_stdout(fmt::format("serval {}\n", version()));
  } else {
    return run_command(first, Arguments(arguments.begin() + 1, arguments.end()));
  }
  return 0;
}

int fail(ErrorKind kind, const std::string& line) {
  log_error(line);
  return static_cast<int>(kind);
}

int guarded_run(const Arguments& arguments) {
  try {
    return run(arguments);
  } catch (const OutputClosed&) {
    return kClosedPipeExit;
  } catch (const Error& error) {
    const bool usage = error.kind() == ErrorKind::kUsage;
    return fail(error.kind(), usage ? in_flag_words(error.what(), arguments) : error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    return fail(ErrorKind::kRuntime, error.what());
  }
}

}  // namespace
}  // namespace serval::cli

int main(int argc, char** argv) {
  using namespace serval::cli;
  reserve_standard_descriptors();
  start_log();
  install_signal_handlers();
  return guarded_run(Arguments(argv + std::min(argc, 1), argv + argc));
}
