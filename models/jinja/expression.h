// Expression nodes of a parsed template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  virtual ~Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  Value evaluate(Evaluation& evaluation) const {
    const Evaluation::Nesting nesting(evaluation);
    evaluation.at_line(line_);
    return compute(evaluation);
  }

 private:
  virtual Value compute(Evaluation& evaluation) const = 0;
  int line_;
};

using ExpressionPointer = std::unique_ptr<const Expression>;
using Expressions = std::vector<ExpressionPointer>;

// The arguments of a call, a filter or a test.
struct ArgumentList {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  Arguments evaluate(Evaluation& evaluation) const;
};

class Constant final : public Expression {
 public:
  Constant(int line, Value value) : Expression(line), value_(std::move(value)) {}

 private:
  Value compute(Evaluation&) const override { return value_; }
  Value value_;
};

class Name final : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  std::string name_;
};

class ListLiteral final : public Expression {
 public:
  ListLiteral(int line, Expressions elements, bool tuple)
      : Expression(line), elements_(std::move(elements)), tuple_(tuple) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  Expressions elements_;
  bool tuple_;
};

class DictLiteral final : public Expression {
 public:
  DictLiteral(int line, std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries)
      : Expression(line), entries_(std::move(entries)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries_;
};

// a.b, which looks for a method before an entry, or a['b'], which looks for an entry first.
class Member final : public Expression {
 public:
  Member(int line, ExpressionPointer object, ExpressionPointer key, bool dotted)
      : Expression(line), object_(std::move(object)), key_(std::move(key)), dotted_(dotted) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  ExpressionPointer object_, key_;
  bool dotted_;
};

// a[begin:end:step]; each of the three may be absent.
class Slice final : public Expression {
 public:
  Slice(int line, ExpressionPointer object, ExpressionPointer begin, ExpressionPointer end,
        ExpressionPointer step)
      : Expression(line),
        object_(std::move(object)),
        begin_(std::move(begin)),
        end_(std::move(end)),
        step_(std::move(step)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  ExpressionPointer object_, begin_, end_, step_;
};

class Call final : public Expression {
 public:
  Call(int line, ExpressionPointer function, ArgumentList arguments)
      : Expression(line), function_(std::move(function)), arguments_(std::move(arguments)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  ExpressionPointer function_;
  ArgumentList arguments_;
};

class Filter final : public Expression {
 public:
  Filter(int line, std::string name, ExpressionPointer input, ArgumentList arguments)
      : Expression(line),
        name_(std::move(name)),
        input_(std::move(input)),
        arguments_(std::move(arguments)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  std::string name_;
  ExpressionPointer input_;
  ArgumentList arguments_;
};

class Test final : public Expression {
 public:
  Test(int line, std::string name, ExpressionPointer input, ArgumentList arguments)
      : Expression(line),
        name_(std::move(name)),
        input_(std::move(input)),
        arguments_(std::move(arguments)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  std::string name_;
  ExpressionPointer input_;
  ArgumentList arguments_;
};

// a SIGN b with + - * / // % ** or ~.
class Binary final : public Expression {
 public:
  Binary(int line, std::string sign, ExpressionPointer left, ExpressionPointer right)
      : Expression(line), sign_(std::move(sign)), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  std::string sign_;
  ExpressionPointer left_, right_;
};

class Negation final : public Expression {  // -a or +a
 public:
  Negation(int line, bool minus, ExpressionPointer operand)
      : Expression(line), minus_(minus), operand_(std::move(operand)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  bool minus_;
  ExpressionPointer operand_;
};

class Not final : public Expression {
 public:
  Not(int line, ExpressionPointer operand) : Expression(line), operand_(std::move(operand)) {}

 private:
  Value compute(Evaluation& evaluation) const override { return !truth(operand_->evaluate(evaluation)); }
  ExpressionPointer operand_;
};

// `and` or `or`. As in Python, the result is one of the operands.
class Logical final : public Expression {
 public:
  Logical(int line, bool is_and, ExpressionPointer left, ExpressionPointer right)
      : Expression(line), is_and_(is_and), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  bool is_and_;
  ExpressionPointer left_, right_;
};

// a < b <= c: true if each comparison is true. Signs: == != < <= > >= in, and "not in".
class Comparison final : public Expression {
 public:
  Comparison(int line, ExpressionPointer first, std::vector<std::pair<std::string, ExpressionPointer>> rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  ExpressionPointer first_;
  std::vector<std::pair<std::string, ExpressionPointer>> rest_;
};

class Conditional final : public Expression {  // a if b else c
 public:
  Conditional(int line, ExpressionPointer then, ExpressionPointer condition, ExpressionPointer otherwise)
      : Expression(line),
        then_(std::move(then)),
        condition_(std::move(condition)),
        otherwise_(std::move(otherwise)) {}

 private:
  Value compute(Evaluation& evaluation) const override;
  ExpressionPointer then_, condition_, otherwise_;  // the last may be absent
};

}  // namespace serval::jinja
