// Fuzzes parsing of a request's body. The first byte selects the path.
#include <string>

#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/text_request.h"
#include "engine/server/api/token_requests.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

using namespace serval::server;

// Accepts input, or an ApiError of status 4xx whose answer is OpenAI's error object.
template <class Read>
void accepts_or_refuses(Read&& read) {
  try {
    read();
  } catch (const ApiError& error) {
    require_one_line(error.what());
    require(error.status >= 400 && error.status < 500, "a bad body gives a status of 4xx");
    const auto object = nlohmann::json::parse(error_json(error), nullptr, false);
    require(object.is_object() && object.contains("error"), "the answer is OpenAI's error object");
  }
}

void check_text(const std::string& body, TextPath path) {
  const TextRequest text = parse_text_request(body, path, {"model", {}});
  const Request& request = text.request;
  const auto answers = static_cast<size_t>(request.n) * text.prompts.size();
  require(!text.prompts.empty() && answers <= size_t{api_limit::kAnswers}, "answers are within the limit");
  require(request.stop.size() <= api_limit::kStopStrings, "stop strings are within the limit");
  require(request.sampling.temperature >= 0 && request.sampling.top_p > 0 && request.sampling.top_k >= 0,
          "sampling is in range");
  require(request.max_tokens >= -1, "max_tokens is in range");
}

void check_embeddings(const std::string& body) {
  const TextRequest text = parse_text_request(body, TextPath::kEmbeddings, {"model", {}});
  require(!text.prompts.empty() && text.prompts.size() <= api_limit::kEmbeddingInputs,
          "inputs are within the limit");
  require(text.request.max_tokens == 0 && text.request.dimensions >= 0, "nothing is generated");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  if (size == 0) return 0;
  const std::string body(text_of(data + 1, size - 1));
  const ModelDefaults defaults{"model", {}};
  switch (data[0] % 6) {
    case 0:
      accepts_or_refuses([&] { check_text(body, TextPath::kCompletions); });
      break;
    case 1:
      accepts_or_refuses([&] { check_text(body, TextPath::kChat); });
      break;
    case 5:
      accepts_or_refuses([&] { check_embeddings(body); });
      break;
    case 4:
      accepts_or_refuses([&] { check_text(body, TextPath::kResponses); });
      break;
    case 2:
      accepts_or_refuses([&] { parse_tokenize_request(body, defaults); });
      break;
    default:
      accepts_or_refuses([&] { parse_detokenize_request(body, defaults); });
  }
  return 0;
}
