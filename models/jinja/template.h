// Jinja templates, as far as published chat templates use them: the language of Jinja 3.1 with what Hugging
// Face's transformers sets (trim_blocks, lstrip_blocks, break and continue, generation blocks, an immutable
// sandbox). docs/chat_templates.md lists what is there. A template may be hostile.
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

// What one run may take. No honest template comes near.
struct Limits {
  std::size_t iterations = 250'000;                   // of all loops
  std::size_t output_bytes = std::size_t{256} << 20;  // written, or held by one value
  std::size_t work = std::size_t{1} << 28;            // about bytes copied,
  std::size_t work_per_byte = 64;                     // and in addition for each of the variables
  int value_depth = 100;                              // lists and dicts in each other
  int evaluation_depth = 1000;                        // expressions, blocks and macros in each other
};

// The time that strftime_now tells.
using Clock = std::function<std::tm()>;
std::tm local_time();

// Variables of a template: an object's members. Text in it is of Origin `origin`.
Value from_json(const nlohmann::ordered_json& json, Origin origin);

// Immutable; render may run on several threads at once.
class Template {
 public:
  // `where` begins the message of an Error, Error(kRuntime), "WHERE: line N: …".
  Template(std::string_view source, std::string where);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // What the template writes with these variables, a dict with text for keys.
  Text render(const Value& variables, const Clock& clock = local_time, const Limits& limits = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace serval::jinja
