// The flags of one command. Each is defined once: names, help and reader. A flag that is not on the command
// line is read from its environment variable: --ctx-size from SERVAL_CTX_SIZE. An empty variable counts as
// unset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/cli/flags/parse_value.h"

namespace serval::cli {

using FlagReader = std::function<void(const FlagValue&)>;

class FlagSet {
 public:
  // `command` follows "serval", and `usage` follows the command in the usage line.
  FlagSet(std::string command, std::string summary, std::string usage);

  // Title in the help of the flags that are added next.
  void group(const std::string& title) { group_ = title; }

  // `names`, for example "-c,--ctx-size". The long name also gives the environment variable's name. If the
  // flag is given several times, the last value wins.
  void value(const std::string& names, const std::string& metavar, const std::string& help,
             FlagReader reader);
  // Every occurrence is read, in order.
  void list(const std::string& names, const std::string& metavar, const std::string& help, FlagReader reader);
  // Takes no value on the command line, and a boolean from the environment.
  void toggle(const std::string& names, const std::string& help, bool& target);
  // An argument without a flag; it has no environment variable.
  void positional(const std::string& name, const std::string& help, FlagReader reader);
  void examples(std::string text) { examples_ = std::move(text); }

  // Reads all flags. Returns false if help was requested; then nothing was read. Throws Error(kUsage) with
  // one line that ends with a reference to the help.
  bool parse(const std::vector<std::string>& arguments);
  // Returns whether the flag with that long name was on the command line.
  bool given(const std::string& long_name) const;
  std::string help() const;
  // The end of error lines: where to find the help.
  std::string see_help() const;

 private:
  enum class Kind { kValue, kList, kToggle, kPositional };
  struct Flag {
    Kind kind;
    std::string group;
    std::string names;
    std::string metavar;
    std::string help;
    FlagReader reader;

    std::string long_name() const;    // "--ctx-size"
    std::string environment() const;  // "SERVAL_CTX_SIZE"; "" for a positional
    void read(const std::vector<std::string>& given) const;
    void read_environment() const;
    std::string help_entry() const;
  };
  class Parser;

  bool parse_or_throw(const std::vector<std::string>& arguments);
  std::string command_;
  std::string summary_;
  std::string usage_;
  std::string group_ = "Flags";
  std::string examples_;
  std::vector<Flag> flags_;
  std::vector<std::string> given_;
};

}  // namespace serval::cli
