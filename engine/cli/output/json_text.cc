#include "engine/cli/output/json_text.h"

#include "nlohmann/json.hpp"

namespace serval::cli {
namespace {

std::string dump(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string pretty(const nlohmann::ordered_json& value) {
  return dump(value, 2);
}
std::string compact(const nlohmann::ordered_json& value) {
  return dump(value, -1);
}

}  // namespace serval::cli
