#include "models/tokenizer/normalizer.h"

#include <cstddef>
#include <fmt/format.h>

#include "models/tokenizer/nfc.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

constexpr std::size_t kMaxContentBytes = 64;  // limits how much a text can grow

const std::string& short_text(const JsonField& field) {
  if (field.text().empty() || field.text().size() > kMaxContentBytes)
    field.fail(fmt::format("{} bytes; limit: 1 to {}", field.text().size(), kMaxContentBytes));
  return field.text();
}

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(pattern, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += content;
    at = found + pattern.size();
  }
}

}  // namespace

void Normalizer::add(const JsonField& field) {
  const JsonField type = field.at("type");
  const std::string& name = type.text();
  if (name == "Sequence") {
    const JsonField list = field.at("normalizers");
    for (std::size_t i = 0; i < list.size(); ++i) add(list.element(i));
  } else if (name == "NFC") {
    steps_.push_back({Kind::kNfc, "", ""});
  } else if (name == "Prepend") {
    steps_.push_back({Kind::kPrepend, short_text(field.at("prepend")), ""});
  } else if (name == "Replace") {
    const std::string& pattern = short_text(field.at("pattern").at("String"));
    steps_.push_back({Kind::kReplace, short_text(field.at("content")), pattern});
  } else {
    type.fail(
        fmt::format("{} is not supported; supported: Sequence, NFC, Prepend and Replace", in_quotes(name)));
  }
}

void Normalizer::add_metaspace(const JsonField& field) {
  const JsonField type = field.at("type");
  if (type.text() != "Metaspace")
    type.fail(fmt::format("{} is not supported; supported: Metaspace", in_quotes(type.text())));
  if (field.flag("split", true)) field.fail("split: true is not supported");
  const std::string& replacement = short_text(field.at("replacement"));
  steps_.push_back({Kind::kReplace, replacement, " "});
  const auto scheme = field.find("prepend_scheme");
  const std::string name = scheme ? scheme->text() : "always";
  if (name == "always") {
    steps_.push_back({Kind::kPrependIfMissing, replacement, ""});
  } else if (name == "first") {
    steps_.push_back({Kind::kPrependIfMissingAtBegin, replacement, ""});
  } else if (name != "never") {
    scheme->fail(fmt::format("{} is none of always, first, never", in_quotes(name)));
  }
}

std::string_view Normalizer::apply(std::string_view text, bool at_begin, std::string* storage) const {
  for (const Step& step : steps_) {
    if (text.empty()) break;
    switch (step.kind) {
      case Kind::kNfc: {
        std::string composed;
        if (to_nfc(text, &composed).data() == text.data()) continue;
        *storage = std::move(composed);
        break;
      }
      case Kind::kReplace:
        *storage = replaced(text, step.pattern, step.content);
        break;
      case Kind::kPrepend:
        *storage = step.content + std::string(text);
        break;
      case Kind::kPrependIfMissing:
      case Kind::kPrependIfMissingAtBegin:
        if (text.starts_with(step.content)) continue;
        if (step.kind == Kind::kPrependIfMissingAtBegin && !at_begin) continue;
        *storage = step.content + std::string(text);
    }
    text = *storage;
  }
  return text;
}

}  // namespace serval
