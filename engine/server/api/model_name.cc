#include "engine/server/api/model_name.h"

#include "fmt/format.h"

#include "engine/server/api/limits.h"

namespace serval::server {

void check_model_name(const BodyFields& fields, const std::string& served) {
  const auto model = fields.text("model", api_limit::kNameBytes);
  if (!model || *model == served) return;
  throw ApiError(
      404, "model_not_found",
      fmt::format("model: {} is not served here; expected {}", shown_value(*model), shown_value(served)),
      "model");
}

}  // namespace serval::server
