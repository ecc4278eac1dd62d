#include "engine/grammar/schema_path.h"

#include "fmt/format.h"

#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {

void SchemaPath::refuse(const std::string& problem) const {
  constexpr size_t kMost = 100;
  // The path contains names chosen by the client, so it must be escaped.
  const std::string quoted = in_quotes(text_.size() > kMost ? text_.substr(0, kMost) : text_);
  throw Error(ErrorKind::kUsage,
              fmt::format("json_schema: {}: {}", quoted.substr(1, quoted.size() - 2), problem));
}

}  // namespace serval::grammar
