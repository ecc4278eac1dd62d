#include "engine/server/api/answer_writer.h"

#include "engine/server/api/response_writer.h"

namespace serval::server {
namespace {

// For completions and chats.
class ChoiceWriter final : public AnswerWriter {
 public:
  ChoiceWriter(TextPath path, bool with_usage, const AnswerIdentity& identity)
      : format_(path, identity), with_usage_(with_usage) {}

  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    return format_.complete(choices, usage);
  }
  std::string begin(size_t choice) override { return format_.first_event(choice, with_usage_); }
  std::string piece(size_t choice, const Piece& piece) override {
    return format_.event(choice, piece, with_usage_);
  }
  std::string end(const Usage& usage) override {
    return (with_usage_ ? format_.usage_event(usage) : std::string()) + kLastEvent;
  }

 private:
  const AnswerFormat format_;
  const bool with_usage_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_answer_writer(const TextRequest& request, const AnswerIdentity& identity) {
  if (request.path == TextPath::kResponses) return make_response_writer(request, identity);
  return std::make_unique<ChoiceWriter>(request.path, request.include_usage, identity);
}

}  // namespace serval::server
