#include "engine/cli/input/conversation.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace serval::cli {

bool Conversation::is_control(int32_t id) const {
  const std::span one(&id, 1);
  return engine_.detokenize(one, true) != engine_.detokenize(one, false);
}

// Encoding never merges text before a control token with text after it. So `said_` can replace the ids up to
// the next control token if both decode to the same text. They may not: a template may change a text, for
// example trim it.
std::vector<int32_t> Conversation::prompt(std::span<const ChatMessage> messages) const {
  std::vector<int32_t> ids = engine_.tokenize_chat(messages);
  if (said_.empty()) return ids;
  const auto control = [this](int32_t id) { return is_control(id); };
  auto left = std::ranges::count_if(said_, control);
  const auto end = std::ranges::find_if(ids, [&](int32_t id) { return is_control(id) && left-- == 0; });
  const std::span same(ids.begin(), end);
  if (end == ids.end() || engine_.detokenize(same, true) != engine_.detokenize(said_, true)) return ids;
  std::vector<int32_t> joined = said_;
  joined.insert(joined.end(), end, ids.end());
  return joined;
}

void Conversation::add(std::vector<int32_t> prompt, const Response& answer) {
  said_ = std::move(prompt);
  const auto ending = answer.finish == Finish::kEos || answer.finish == Finish::kStop ? 1 : 0;
  said_.insert(said_.end(), answer.tokens.begin(), answer.tokens.end() - ending);
}

}  // namespace serval::cli
