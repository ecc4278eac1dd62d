// Statement nodes of a parsed template: text, output and blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/jinja/evaluation.h"
#include "models/jinja/expression.h"

namespace serval::jinja {

enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  Statement() = default;
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  virtual Flow run(Evaluation& evaluation) const = 0;
};

using StatementPointer = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPointer>;

Flow run_body(Evaluation& evaluation, const Body& body);

class Data final : public Statement {
 public:
  explicit Data(std::string text) : text_(std::move(text)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  Text text_;
};

class Output final : public Statement {
 public:
  explicit Output(ExpressionPointer expression) : expression_(std::move(expression)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  ExpressionPointer expression_;
};

class If final : public Statement {
 public:
  struct Branch {
    ExpressionPointer condition;  // absent in else
    Body body;
  };
  explicit If(std::vector<Branch> branches) : branches_(std::move(branches)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  std::vector<Branch> branches_;
};

// The target of an assignment: a variable, several variables (the value is unpacked), or the attribute of a
// namespace.
struct Target {
  std::vector<std::string> names;
  std::string attribute;  // of names[0], or empty
  void assign(Evaluation& evaluation, const Value& value) const;
};

class For final : public Statement {
 public:
  For(int line, Target target, ExpressionPointer elements, ExpressionPointer condition, Body body,
      Body otherwise)
      : line_(line),
        target_(std::move(target)),
        elements_(std::move(elements)),
        condition_(std::move(condition)),
        body_(std::move(body)),
        otherwise_(std::move(otherwise)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  List selected(Evaluation& evaluation) const;
  int line_;
  Target target_;
  ExpressionPointer elements_, condition_;  // the latter may be absent
  Body body_, otherwise_;
};

class Jump final : public Statement {
 public:
  explicit Jump(Flow flow) : flow_(flow) {}
  Flow run(Evaluation&) const override { return flow_; }

 private:
  Flow flow_;
};

class Set final : public Statement {
 public:
  Set(int line, Target target, ExpressionPointer value)
      : line_(line), target_(std::move(target)), value_(std::move(value)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  int line_;
  Target target_;
  ExpressionPointer value_;
};

// {% set x | filter %} … {% endset %}
class SetBlock final : public Statement {
 public:
  struct FilterCall {
    std::string name;
    ArgumentList arguments;
  };
  SetBlock(int line, Target target, std::vector<FilterCall> filters, Body body)
      : line_(line), target_(std::move(target)), filters_(std::move(filters)), body_(std::move(body)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  int line_;
  Target target_;
  std::vector<FilterCall> filters_;
  Body body_;
};

class Macro final : public Statement {
 public:
  struct Parameter {
    std::string name;
    ExpressionPointer otherwise;  // the default; may be absent
  };
  Macro(std::string name, std::vector<Parameter> parameters, Body body)
      : name_(std::move(name)), parameters_(std::move(parameters)), body_(std::move(body)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  Value call(Evaluation& evaluation, const Scope* around, const Arguments& arguments) const;
  std::string name_;
  std::vector<Parameter> parameters_;
  Body body_;
};

// {% generation %} … {% endgeneration %}, which marks the assistant's text for training and has no effect
// here.
class Group final : public Statement {
 public:
  explicit Group(Body body) : body_(std::move(body)) {}
  Flow run(Evaluation& evaluation) const override;

 private:
  Body body_;
};

}  // namespace serval::jinja
