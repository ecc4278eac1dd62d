// Parses expressions with Jinja's precedence, from weakest to strongest: if else, or, and, not, comparisons,
// + -, ~, * / // %, **, signs, filters and tests, then .name, [item] and calls.
#pragma once

#include <string>

#include "models/jinja/expression.h"
#include "models/jinja/token_stream.h"

namespace serval::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses one expression. The limit of operations applies to each call separately.
  ExpressionPointer expression();
  // As expression(), or several separated by commas, which make a tuple.
  ExpressionPointer tuple();
  // As tuple(), but without `if`, which in {% for %} starts the loop's condition.
  ExpressionPointer tuple_of_operands();
  // (a, b=c)
  ArgumentList arguments();

 private:
  template <typename Parse>
  ExpressionPointer several(Parse parse);
  ExpressionPointer nested();
  ExpressionPointer conditional();
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer signed_operand(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer constant_or_name();
  ExpressionPointer text();
  ExpressionPointer number();
  ExpressionPointer parenthesised();
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer with_postfix(ExpressionPointer object);
  ExpressionPointer member(ExpressionPointer object);
  ExpressionPointer subscript(ExpressionPointer object);
  ExpressionPointer with_filters(ExpressionPointer input);
  ExpressionPointer filter(ExpressionPointer input);
  ExpressionPointer test(ExpressionPointer input);
  ArgumentList test_arguments();
  std::string sign_of_comparison();

  // Fails if the expression has too many operations: evaluation recurses over their tree.
  void count_operation();

  TokenStream& tokens_;
  int operations_ = 0;
  int depth_ = 0;
};

}  // namespace serval::jinja
