// The body of a request to the server; its first byte picks the path.
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

// What is refused is the client's mistake, and OpenAI's error object says so.
template <class Read>
void takes_or_refuses(Read&& read) {
  try {
    read();
  } catch (const ApiError& error) {
    promise_one_line(error.what());
    promise(error.status >= 400 && error.status < 500, "a wrong body is the client's mistake");
    const auto object = nlohmann::json::parse(error_json(error), nullptr, false);
    promise(object.is_object() && object.contains("error"), "the answer is OpenAI's error object");
  }
}

void check_text(const std::string& body, TextPath path) {
  const TextRequest text = parse_text_request(body, path, {"model", {}});
  const Request& request = text.request;
  const auto answers = static_cast<size_t>(request.n) * text.prompts.size();
  promise(!text.prompts.empty() && answers <= size_t{api_limit::kAnswers}, "answers are within the limit");
  promise(request.stop.size() <= api_limit::kStopStrings, "stop strings are within the limit");
  promise(request.sampling.temperature >= 0 && request.sampling.top_p > 0 && request.sampling.top_k >= 0,
          "sampling is in range");
  promise(request.max_tokens >= -1, "max_tokens is in range");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  if (size == 0) return 0;
  const std::string body(text_of(data + 1, size - 1));
  const ModelDefaults defaults{"model", {}};
  switch (data[0] % 5) {
    case 0:
      takes_or_refuses([&] { check_text(body, TextPath::kCompletions); });
      break;
    case 1:
      takes_or_refuses([&] { check_text(body, TextPath::kChat); });
      break;
    case 4:
      takes_or_refuses([&] { check_text(body, TextPath::kResponses); });
      break;
    case 2:
      takes_or_refuses([&] { parse_tokenize_request(body, defaults); });
      break;
    default:
      takes_or_refuses([&] { parse_detokenize_request(body, defaults); });
  }
  return 0;
}
