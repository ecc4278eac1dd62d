#include "engine/cli/flags/flags.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "CLI/CLI.hpp"
#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr size_t kHelpColumn = 30;
constexpr size_t kHelpWidth = 100;

// Breaks `text` at spaces into lines that start at kHelpColumn; the first continues a line.
std::string wrap(const std::string& text) {
  std::string out;
  size_t column = kHelpColumn;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const size_t length = end - begin;
    if (column > kHelpColumn && column + length >= kHelpWidth) {
      out += '\n' + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      out += ' ';
    }
    out += text.substr(begin, length);
    column += length + 1;
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::string FlagSet::Flag::long_name() const {
  const size_t at = names.find("--");
  return at == std::string::npos ? names : names.substr(at);
}

std::string FlagSet::Flag::environment() const {
  if (kind == Kind::kPositional) return "";
  std::string name = "SERVAL_";
  for (const char c : long_name().substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void FlagSet::Flag::read(const std::vector<std::string>& given) const {
  const bool all = kind == Kind::kList;
  for (size_t i = all ? 0 : given.size() - 1; i < given.size(); ++i) reader({long_name(), given[i]});
}

void FlagSet::Flag::read_environment() const {
  const std::string variable = environment();
  if (variable.empty()) return;
  const char* text = std::getenv(variable.c_str());
  if (text != nullptr && *text != '\0') reader({variable, text, true});
}

std::string FlagSet::Flag::help_entry() const {
  std::string left = "  " + names;
  std::replace(left.begin() + 2, left.end(), ',', ' ');
  if (kind != Kind::kPositional && !metavar.empty()) left += ' ' + metavar;
  left += left.size() + 2 > kHelpColumn ? '\n' + std::string(kHelpColumn, ' ')
                                        : std::string(kHelpColumn - left.size(), ' ');
  const std::string variable = environment();
  return left + wrap(variable.empty() ? help : fmt::format("{} [{}]", help, variable)) + '\n';
}

// Names with one dash and several letters, as llama.cpp's -md: CLI11 takes them for several flags.
bool is_long_with_one_dash(const std::string& name) {
  return name.size() > 2 && name[0] == '-' && name[1] != '-';
}

// CLI11 splits the command line. Values stay text, so that values from the environment are read by the same
// code.
class FlagSet::Parser {
 public:
  explicit Parser(const FlagSet& flags) {
    app_.set_help_flag();
    app_.allow_extras();
    help_ = app_.add_flag("-h,--help");
    for (const Flag& flag : flags.flags_) options_.push_back(add(flag));
  }

  void split(const std::vector<std::string>& arguments) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    for (std::string& argument : reversed) {
      if (const auto found = long_names_.find(argument); found != long_names_.end()) argument = found->second;
    }
    app_.parse(reversed);
  }

  bool help_asked() const { return help_->count() > 0; }
  std::vector<std::string> unknown() const { return app_.remaining(); }
  std::vector<std::string> given(size_t flag) const { return options_[flag]->results(); }

 private:
  CLI::Option* add(const Flag& flag) {
    if (flag.kind == Kind::kToggle) return app_.add_flag(flag.names);
    const std::string first = flag.names.substr(0, flag.names.find(','));
    const bool has_alias = is_long_with_one_dash(first);
    if (has_alias) long_names_[first] = flag.long_name();
    CLI::Option* option = app_.add_option(has_alias ? flag.long_name() : flag.names,
                                          [](const CLI::results_t&) { return true; });
    return option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  CLI::App app_;
  CLI::Option* help_;
  std::vector<CLI::Option*> options_;
  std::map<std::string, std::string> long_names_;  // of names with one dash
};

namespace {

const char* why_unknown(const std::string& argument) {
  if (!argument.starts_with('-')) return "was not expected";
  // llama.cpp's --lora, vLLM's --enable-lora, --lora-modules and others.
  if (argument.substr(0, argument.find('=')).find("lora") != std::string::npos)
    return "is not supported: LoRA adapters must be merged into the checkpoint's weights";
  return "is not a flag of this command";
}

}  // namespace

FlagSet::FlagSet(std::string command, std::string summary, std::string usage)
    : command_(std::move(command)), summary_(std::move(summary)), usage_(std::move(usage)) {}

void FlagSet::value(const std::string& names, const std::string& metavar, const std::string& help,
                    FlagReader reader) {
  flags_.push_back({Kind::kValue, group_, names, metavar, help, std::move(reader)});
}

void FlagSet::list(const std::string& names, const std::string& metavar, const std::string& help,
                   FlagReader reader) {
  flags_.push_back({Kind::kList, group_, names, metavar, help, std::move(reader)});
}

void FlagSet::toggle(const std::string& names, const std::string& help, bool& target) {
  flags_.push_back(
      {Kind::kToggle, group_, names, "", help, [&target](const FlagValue& v) { target = parse_boolean(v); }});
}

void FlagSet::positional(const std::string& name, const std::string& help, FlagReader reader) {
  flags_.push_back({Kind::kPositional, "Arguments", name, name, help, std::move(reader)});
}

std::string FlagSet::see_help() const {
  return fmt::format("; see serval {} --help", command_);
}

bool FlagSet::parse(const std::vector<std::string>& arguments) {
  try {
    return parse_or_throw(arguments);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string line = error.what();  // begins with the flag's name
    throw Error(ErrorKind::kUsage, line.substr(0, line.find(':')) + ": needs a value" + see_help());
  } catch (const CLI::Error& error) {
    throw Error(ErrorKind::kUsage, error.what() + see_help());
  } catch (const Error& error) {
    throw Error(error.kind(), error.what() + (error.kind() == ErrorKind::kUsage ? see_help() : ""));
  }
}

bool FlagSet::parse_or_throw(const std::vector<std::string>& arguments) {
  Parser parser(*this);
  parser.split(arguments);
  if (parser.help_asked()) return false;
  for (const std::string& unknown : parser.unknown()) reject({command_, unknown}, why_unknown(unknown));
  for (size_t i = 0; i < flags_.size(); ++i) {
    const std::vector<std::string> given = parser.given(i);
    if (given.empty()) {
      flags_[i].read_environment();
    } else {
      given_.push_back(flags_[i].long_name());
      flags_[i].read(given);
    }
  }
  return true;
}

bool FlagSet::given(const std::string& long_name) const {
  return std::find(given_.begin(), given_.end(), long_name) != given_.end();
}

std::string FlagSet::help() const {
  std::string out = fmt::format("{}\n\nUsage: serval {} {}\n", summary_, command_, usage_);
  std::vector<std::string> groups;
  for (const Flag& flag : flags_) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  for (const std::string& group : groups) {
    out += fmt::format("\n{}\n", group);
    for (const Flag& flag : flags_) {
      if (flag.group == group) out += flag.help_entry();
    }
  }
  out +=
      "\nHelp\n  -h --help                   this text\n\nA flag that is not given is read from the "
      "environment variable in brackets.\n";
  return examples_.empty() ? out : out + "\nExamples\n" + examples_;
}

}  // namespace serval::cli
