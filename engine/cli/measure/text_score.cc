#include "engine/cli/measure/text_score.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::cli {
namespace {

// Tokens, of which those from `first` on are scored.
struct ScoredTokens {
  std::vector<int32_t> tokens;
  size_t first = 0;
};

ScoredTokens tokens_of(const Engine& engine, const ScoreLine& line, const ScoreOptions& options) {
  const TokenizeOptions tokenize{options.special, options.add_special_tokens};
  const size_t end = line.prompt.find_last_not_of(" \t\r\n") + 1;
  const std::string prompt = line.prompt.substr(0, end);
  const std::string rest = line.prompt.substr(end) + line.text;
  ScoredTokens scored{.tokens = engine.tokenize(prompt + rest, tokenize)};
  scored.first = std::min(engine.tokenize(prompt, tokenize).size(), scored.tokens.size());
  return scored;
}

// The token before a text that has none: BOS, or the end of the text before it.
void put_prefix_before(const Engine& engine, ScoredTokens& scored) {
  const ModelInfo& info = engine.info();
  const std::string& token = info.bos_token.empty() ? info.eos_token : info.bos_token;
  const std::vector<int32_t> ids = engine.tokenize(token, {.special = true, .add_special_tokens = false});
  if (!ids.empty()) scored.tokens.insert(scored.tokens.begin(), ids.front());
}

Request request_of(std::vector<int32_t> tokens, size_t first) {
  Request request;
  request.prompt_ids = std::move(tokens);
  request.max_tokens = 0;
  request.prompt_logprobs = 1;
  request.prompt_logprobs_from = static_cast<int>(first);
  return request;
}

// `most`: tokens of a request.
std::vector<Request> windows_of(const ScoredTokens& scored, size_t most) {
  const std::vector<int32_t>& tokens = scored.tokens;
  std::vector<Request> requests;
  for (size_t done = scored.first; done < tokens.size();) {
    // The first request has what comes before the text; later ones have one token before theirs, and the last
    // has as many as fit.
    const size_t before = requests.empty() ? done : 1;
    const size_t end = std::min(done + most - before, tokens.size());
    const size_t begin = end < tokens.size() ? done - before : end - std::min(most, end);
    const auto at = [&](size_t index) { return tokens.begin() + static_cast<std::ptrdiff_t>(index); };
    requests.push_back(request_of({at(begin), at(end)}, done - begin));
    done = end;
  }
  return requests;
}

}  // namespace

std::vector<Request> score_requests(const Engine& engine, const ScoreLine& line,
                                    const ScoreOptions& options) {
  const size_t most = static_cast<size_t>(engine.info().context) - 1;
  ScoredTokens scored = tokens_of(engine, line, options);
  if (scored.first == 0 && options.add_special_tokens) put_prefix_before(engine, scored);
  scored.first = std::max<size_t>(scored.first, 1);
  if (scored.first >= scored.tokens.size())
    throw Error(ErrorKind::kUsage, line.place + ": no token to score; expected at least 1");
  if (line.is_continuation && scored.tokens.size() > most) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: prompt and continuation: {} tokens; limit: {} (context {})", line.place,
                            scored.tokens.size(), most, most + 1));
  }
  return windows_of(scored, most);
}

void TextScore::add(const Response& response) {
  for (const PromptLogprob& token : response.prompt_logprobs) {
    log_probability += token.log_probability;
    ++tokens;
    is_greedy = is_greedy && !token.top_logprobs.empty() && token.top_logprobs.front().token == token.token;
    token_ids.push_back(token.token);
    log_probabilities.push_back(token.log_probability);
  }
}

double TextScore::perplexity() const {
  return std::exp(-log_probability / static_cast<double>(std::max<uint64_t>(tokens, 1)));
}

}  // namespace serval::cli
