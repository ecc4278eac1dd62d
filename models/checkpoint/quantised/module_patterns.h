// Lists of module names in quantisation configurations, such as "ignore".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/regex.h"
#include "vm/base/json_fields.h"

namespace serval {

// How an entry names modules.
enum class PatternSyntax {
  kNameOrRegex,  // compressed-tensors: the name, or "re:" and a pattern that matches from the name's start
  kPart,  // some neighbouring parts of the name: "layers.1" means "model.layers.1.mlp", not "model.layers.10"
  kGlob,  // ModelOpt: the name, with * for any text and ? for any character
};

// Immutable and thread-safe.
class ModulePatterns {
 public:
  static constexpr size_t kMaxEntries = 1 << 16;
  static constexpr size_t kMaxRegexes = 256;
  static constexpr double kRegexSeconds = 0.1;  // CPU time for one name

  // An empty list.
  ModulePatterns() = default;
  // Reads the array of texts `key`; absent or null: an empty list. Throws Error(kRuntime) with the key.
  ModulePatterns(const JsonFields& fields, const char* key, PatternSyntax syntax);

  bool matches(std::string_view module) const {
    return names(module) || regex_that_matches(module) != nullptr;
  }
  // True if an entry other than a regular expression matches.
  bool names(std::string_view module) const;
  // The first regular expression, in the order of their texts, that matches; null if none does.
  const std::string* regex_that_matches(std::string_view module) const;
  // "FILE: KEY", for error lines.
  const std::string& where() const { return where_; }

 private:
  PatternSyntax syntax_ = PatternSyntax::kPart;
  std::string where_;
  std::vector<std::string> texts_;
  std::map<std::string, std::shared_ptr<const Regex>> regexes_;  // by pattern
};

}  // namespace serval
