#include "engine/server/api/answer_writer.h"

#include <set>

#include "engine/server/api/embedding_writer.h"
#include "engine/server/api/message_writer.h"
#include "engine/server/api/response_writer.h"

namespace serval::server {
namespace {

// For completions and chats.
class ChoiceWriter final : public AnswerWriter {
 public:
  ChoiceWriter(const TextRequest& request, const AnswerIdentity& identity)
      : format_(request.path, identity),
        is_chat_(request.path == TextPath::kChat),
        with_usage_(request.include_usage),
        answers_(static_cast<size_t>(request.answers)),
        prompt_ids_(request.prompt_ids) {}

  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    if (prompt_ids_.empty()) return format_.complete(choices, usage);
    std::vector<Piece> listed = choices;
    for (size_t i = 0; i < listed.size(); ++i) listed[i].prompt_token_ids = prompt_of(i);
    return format_.complete(listed, usage);
  }
  std::string begin(size_t choice) override {
    if (!is_chat_ && !prompt_ids_.empty()) lists_prompt_.insert(choice);
    return format_.first_event(choice, with_usage_, prompt_of(choice));
  }
  std::string piece(size_t choice, const Piece& piece) override {
    if (lists_prompt_.erase(choice) == 0) return format_.event(choice, piece, with_usage_);
    Piece first = piece;
    first.prompt_token_ids = prompt_of(choice);
    return format_.event(choice, first, with_usage_);
  }
  std::string end(const Usage& usage) override {
    return (with_usage_ ? format_.usage_event(usage) : std::string()) + kLastEvent;
  }

 private:
  // Null if token ids are not listed.
  const std::vector<int32_t>* prompt_of(size_t choice) const {
    return prompt_ids_.empty() ? nullptr : &prompt_ids_[choice / answers_];
  }

  const AnswerFormat format_;
  const bool is_chat_, with_usage_;
  const size_t answers_;  // to each prompt
  const std::vector<std::vector<int32_t>> prompt_ids_;
  std::set<size_t> lists_prompt_;  // choices of a completion whose next piece lists the prompt's ids
};

}  // namespace

std::string AnswerWriter::error(const ApiError& error) {
  return event_of(error_json(error));
}

std::unique_ptr<AnswerWriter> make_answer_writer(const TextRequest& request, const AnswerIdentity& identity) {
  if (request.path == TextPath::kResponses) return make_response_writer(request, identity);
  if (request.path == TextPath::kMessages) return make_message_writer(request, identity);
  if (request.path == TextPath::kEmbeddings) return make_embedding_writer(request, identity);
  return std::make_unique<ChoiceWriter>(request, identity);
}

}  // namespace serval::server
