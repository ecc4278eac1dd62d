#include "models/jinja/template.h"

#include <fmt/format.h>
#include <utility>

#include "models/jinja/functions.h"
#include "models/jinja/lexer.h"
#include "models/jinja/parser.h"
#include "models/jinja/statement.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"

namespace serval::jinja {

struct Template::Parsed {
  std::string where;
  Body body;
};

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

Template::Template(std::string_view source, std::string where) {
  if (source.size() > kMaxTemplateBytes) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: a template of {} bytes; limit: {}", where,
                                                 source.size(), kMaxTemplateBytes));
  }
  std::string repaired;
  Body body = parse(tokenize(utf8_lossy(source, &repaired), where), where);
  parsed_ = std::make_unique<const Parsed>(Parsed{std::move(where), std::move(body)});
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Text Template::render(const Value& variables, const Clock& clock, const Limits& limits) const {
  Evaluation evaluation(limits, variables.weight(), clock, parsed_->where);
  InnerScope globals(evaluation, nullptr);
  add_functions(&*globals);
  const Value given = evaluation.checked(variables);
  for (const auto& [name, value] : given.entries()) globals->set(name.text().bytes(), value);
  const InnerScope own(evaluation, &*globals);
  run_body(evaluation, parsed_->body);
  return evaluation.take_output();
}

}  // namespace serval::jinja
