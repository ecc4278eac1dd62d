// The state of one run of a template: its variables, its output and its remaining budget.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "models/jinja/template.h"
#include "models/jinja/text.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// Variables of a block. Lookups continue in `parent`, the enclosing block.
class Scope {
 public:
  explicit Scope(const Scope* parent) : parent_(parent) {}
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value) { variables_[name] = std::move(value); }

 private:
  const Scope* parent_;
  std::map<std::string, Value, std::less<>> variables_;
};

class Evaluation {
 public:
  // `input_bytes` is the weight of the variables (Value::weight()). The references must outlive the object.
  Evaluation(const Limits& limits, std::size_t input_bytes, const Clock& clock, std::string_view where)
      : limits_(limits),
        clock_(clock),
        where_(where),
        work_left_(limits.work + limits.work_per_byte * input_bytes) {}

  // Line of the template, for messages.
  int line() const { return line_; }
  void at_line(int line) { line_ = line; }

  // Throws Error(kRuntime): "WHERE: line N: WHAT".
  [[noreturn]] void fail(std::string_view what) const;

  // Subtracts `work` (about bytes copied) from the budget; fails if it is used up.
  void charge(std::size_t work);
  void count_iteration();

  // Returns `value`. Fails if it is too large, nested too deeply, or a container holds a namespace or
  // function.
  Value checked(Value value);
  Value checked_list(List elements);
  Value checked_dict(Entries entries);

  void write(const Text& text);
  Text take_output() { return std::move(output_); }
  // Collects the text that write() receives during its lifetime.
  class Capture;

  const Clock& clock() const { return clock_; }

  Scope* scope = nullptr;

  // Counts the nesting of expressions, blocks and macros, and fails at the limit.
  class Nesting {
   public:
    explicit Nesting(Evaluation& evaluation);
    ~Nesting() { --evaluation_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Evaluation& evaluation_;
  };

  class Capture {
   public:
    explicit Capture(Evaluation& evaluation) : evaluation_(evaluation) {
      std::swap(outer_, evaluation_.output_);
    }
    ~Capture() { std::swap(outer_, evaluation_.output_); }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Text text() const { return evaluation_.output_; }

   private:
    Evaluation& evaluation_;
    Text outer_;
  };

 private:
  const Limits& limits_;
  const Clock& clock_;
  std::string_view where_;
  int line_ = 1;
  int depth_ = 0;
  std::size_t work_left_;
  std::size_t iterations_ = 0;
  Text output_;
};

// Makes a new Scope current during its lifetime.
class InnerScope {
 public:
  InnerScope(Evaluation& evaluation, const Scope* parent)
      : evaluation_(evaluation), outer_(evaluation.scope), scope_(parent) {
    evaluation_.scope = &scope_;
  }
  ~InnerScope() { evaluation_.scope = outer_; }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;
  Scope& operator*() { return scope_; }
  Scope* operator->() { return &scope_; }

 private:
  Evaluation& evaluation_;
  Scope* outer_;
  Scope scope_;
};

}  // namespace serval::jinja
