// Reads the arguments of a built-in function by position or name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

// Each call takes the next parameter; finish() fails if arguments are left. Messages start with `function`.
class ArgumentReader {
 public:
  ArgumentReader(Evaluation& evaluation, std::string_view function, const Arguments& arguments)
      : evaluation_(evaluation), function_(function), arguments_(arguments) {}

  Value take(std::string_view name);  // fails if it is missing
  Value take(std::string_view name, Value otherwise);
  Text take_text(std::string_view name);
  std::int64_t take_integer(std::string_view name, std::int64_t otherwise);
  bool take_flag(std::string_view name, bool otherwise) { return truth(take(name, Value(otherwise))); }
  void finish() const;

  std::int64_t integer(std::string_view name, const Value& value) const;
  Text text(std::string_view name, const Value& value) const;

 private:
  const Value* find(std::string_view name);

  Evaluation& evaluation_;
  std::string_view function_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  std::size_t named_taken_ = 0;
};

}  // namespace serval::jinja
