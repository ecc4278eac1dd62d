// Jinja templates: the part of Jinja 3.1 that published chat templates use, with the settings of Hugging
// Face's transformers (trim_blocks, lstrip_blocks, break and continue, generation blocks, an immutable
// sandbox). docs/chat_templates.md lists what is supported. Templates are untrusted input.
#pragma once

#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "models/jinja/text.h"
#include "models/jinja/value.h"

namespace serval::jinja {

inline constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

// Limits of one run, far above the needs of real templates.
struct Limits {
  std::size_t iterations = 250'000;                   // of all loops
  std::size_t output_bytes = std::size_t{256} << 20;  // of the output, and of a single value
  std::size_t work = std::size_t{1} << 28;            // about bytes copied
  std::size_t work_per_byte = 64;                     // additional work for each byte of the variables
  int value_depth = 100;                              // nesting of lists and dicts
  int evaluation_depth = 1000;                        // nesting of expressions, blocks and macros
};

// Returns the time for strftime_now.
using Clock = std::function<std::tm()>;
std::tm local_time();

// Converts JSON to a value, such as a template's variables from an object. Its text gets the origin `origin`.
Value from_json(const nlohmann::ordered_json& json, Origin origin);

// Immutable and thread-safe.
class Template {
 public:
  // Throws Error(kRuntime), "WHERE: line N: …", for a template that is too large, wrong or not supported.
  Template(std::string_view source, std::string where);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // Returns the output for these variables, a dict whose keys are text. Throws Error(kRuntime) as the
  // constructor does.
  Text render(const Value& variables, const Clock& clock = local_time, const Limits& limits = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace serval::jinja
