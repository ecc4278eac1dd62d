#include "tests/engine/toy_engine.h"

#include <algorithm>
#include <utility>

#include "models/tokenizer/utf8.h"

namespace serval::testing {
namespace {

class PieceStream final : public TextStream {
 public:
  explicit PieceStream(const std::vector<std::string>& pieces) : pieces_(pieces) {}
  std::string push(int32_t token) override { return utf8_.push(pieces_.at(static_cast<size_t>(token))); }
  std::string flush() override { return utf8_.flush(); }

 private:
  const std::vector<std::string>& pieces_;
  Utf8Stream utf8_;
};

class PieceCodec final : public TextCodec {
 public:
  explicit PieceCodec(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& /*options*/) const override {
    return std::vector<int32_t>(text.size(), 0);
  }
  std::string decode(std::span<const int32_t> ids, SpecialTokens /*special*/) const override {
    PieceStream stream(pieces_);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    return text + stream.flush();
  }
  std::unique_ptr<TextStream> stream(SpecialTokens /*special*/) const override {
    return std::make_unique<PieceStream>(pieces_);
  }
  std::optional<std::string> token_bytes(int32_t id, SpecialTokens /*special*/) const override {
    const auto index = static_cast<size_t>(id);
    return index < pieces_.size() ? std::optional(pieces_[index]) : std::nullopt;
  }

 private:
  std::vector<std::string> pieces_;
};

FakeBackendOptions with_vocabulary(const ToyOptions& options) {
  FakeBackendOptions backend = options.backend;
  backend.vocab = static_cast<uint32_t>(options.vocab_size);
  return backend;
}

EngineParts parts_of(std::unique_ptr<FakeBackend> backend, ToyOptions options) {
  EngineParts parts;
  parts.info.name = "toy";
  parts.info.context = static_cast<int>(options.backend.context);
  parts.info.vocab_size = options.vocab_size;
  parts.info.max_sequences = static_cast<int>(options.backend.sequences);
  parts.text.stop_tokens = std::move(options.stop_tokens);
  parts.text.codec = options.text ? std::move(options.text) : make_byte_codec(options.vocab_size);
  parts.backend = std::move(backend);
  parts.loop = options.loop;
  return parts;
}

Engine make_engine(FakeBackend* backend, ToyOptions options) {
  return Engine::Impl::make(parts_of(std::unique_ptr<FakeBackend>(backend), std::move(options)));
}

}  // namespace

ToyEngine::ToyEngine(ToyModel model, ToyOptions options)
    : backend(new FakeBackend(std::move(model), with_vocabulary(options))),
      engine(make_engine(backend, std::move(options))) {}

std::unique_ptr<TextCodec> make_piece_codec(std::vector<std::string> pieces) {
  return std::make_unique<PieceCodec>(std::move(pieces));
}

Response answer_alone(const ToyModel& model, const PreparedRequest& request) {
  SequenceSlot slot;
  slot.seed = request.sampling.seed;
  slot.sequence = request.sampling.stream;
  slot.temperature = request.sampling.temperature;
  Response response;
  std::vector<int32_t> tokens = request.prompt;
  while (response.tokens.size() < request.max_tokens) {
    const SampledToken sampled = model(slot, tokens);
    tokens.push_back(sampled.token);
    response.tokens.push_back(sampled.token);
    response.log_probabilities.push_back(sampled.log_probability);
    const auto& stops = request.stop_tokens;
    if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
      response.finish = Finish::kEos;
      return response;
    }
  }
  response.finish = Finish::kLength;
  return response;
}

}  // namespace serval::testing
