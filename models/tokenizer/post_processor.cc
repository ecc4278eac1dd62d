#include "models/tokenizer/post_processor.h"

#include <cstddef>
#include <fmt/format.h>
#include <string>

#include "vm/base/json_file.h"

namespace serval {
namespace {

constexpr std::size_t kMaxAddedIds = 256;  // a template may name a long list of ids many times

// The ids of `name` in a template's `special_tokens`.
std::vector<std::int32_t> ids_of(const JsonField& special_tokens, const std::string& name,
                                 const Vocabulary& vocabulary) {
  const JsonField list = special_tokens.at(name).at("ids");
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonField element = list.element(i);
    const auto id = static_cast<std::int32_t>(element.integer(0, kMaxTokenId));
    if (!vocabulary.has(id)) element.fail(fmt::format("no token has the id {}", id));
    ids.push_back(id);
  }
  return ids;
}

}  // namespace

PostProcessor::PostProcessor(const JsonField& field, const Vocabulary& vocabulary) {
  add(field, vocabulary);
}

void PostProcessor::add(const JsonField& field, const Vocabulary& vocabulary) {
  const JsonField type = field.at("type");
  const std::string& name = type.text();
  if (name == "Sequence") {
    const JsonField list = field.at("processors");
    for (std::size_t i = 0; i < list.size(); ++i) add(list.element(i), vocabulary);
  } else if (name == "TemplateProcessing") {
    add_template(field, vocabulary);
  } else if (name != "ByteLevel") {
    type.fail(fmt::format("{} is not supported; supported: Sequence, TemplateProcessing and ByteLevel",
                          in_quotes(name)));
  }
}

// Each template adds its tokens outside those of earlier templates.
void PostProcessor::add_template(const JsonField& field, const Vocabulary& vocabulary) {
  const JsonField single = field.at("single");
  std::vector<std::int32_t> before, after;
  int texts = 0;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonField element = single.element(i);
    if (element.find("Sequence")) {
      ++texts;
      continue;
    }
    const std::string& name = element.at("SpecialToken").at("id").text();
    const auto ids = ids_of(field.at("special_tokens"), name, vocabulary);
    auto& side = texts == 0 ? before : after;
    side.insert(side.end(), ids.begin(), ids.end());
    if (side.size() > kMaxAddedIds) single.fail(fmt::format("adds more than {} tokens", kMaxAddedIds));
  }
  if (texts != 1) single.fail(fmt::format("has the text {} times, expected once", texts));
  prefix_.insert(prefix_.begin(), before.begin(), before.end());
  suffix_.insert(suffix_.end(), after.begin(), after.end());
}

}  // namespace serval
