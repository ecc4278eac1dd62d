// One run of a template: variables, what has been written, and what the run may still spend.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "models/jinja/template.h"
#include "models/jinja/text.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// Variables of a block, and through `parent` those around it.
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
  // `input_bytes`: the weight of the variables.
  Evaluation(const Limits& limits, std::size_t input_bytes, const Clock& clock, std::string_view where)
      : limits_(limits),
        clock_(clock),
        where_(where),
        work_left_(limits.work + limits.work_per_byte * input_bytes) {}

  // The line of the template that is being evaluated.
  int line() const { return line_; }
  void at_line(int line) { line_ = line; }

  // Throws Error(kRuntime): "WHERE: line N: WHAT".
  [[noreturn]] void fail(std::string_view what) const;

  // Takes `work` (about bytes copied) from what the run may spend.
  void charge(std::size_t work);
  void count_iteration();

  // `value`, unless it is too large, or too deep, or holds what a container may not.
  Value checked(Value value);
  Value checked_list(List elements);
  Value checked_dict(Entries entries);

  void write(const Text& text);
  Text take_output() { return std::move(output_); }
  // What `write` writes until the capture ends.
  class Capture;

  const Clock& clock() const { return clock_; }

  Scope* scope = nullptr;

  // One more expression or macro inside another.
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

// `Scope` of a block, for as long as it runs.
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
