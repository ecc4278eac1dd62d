// Log-probabilities of texts, as evaluations use them: what a text gets, and the requests that compute it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cli/input/score_lines.h"
#include "serval/engine.h"

namespace serval::cli {

struct ScoreOptions {
  bool special = false;            // control tokens that are written in a text mean these tokens
  bool add_special_tokens = true;  // the model's own around a text, such as BOS
};

// The requests for one line: one, or for a text that is longer than the context several. Each token is scored
// once: in the second request and later, the first token is the last of the request before, and the last
// request has as many tokens before its own as fit.
//
// A continuation begins after the tokens of its prompt alone, and white space at the prompt's end belongs to
// it, as in lm-eval. If nothing comes before the first token, the model's BOS does or, where it has none, its
// end-of-text token. Without either, or without special tokens, the first token is not scored.
//
// Throws Error(kUsage) with the line's place if prompt and continuation do not fit into the context, or if no
// token is left to score.
std::vector<Request> score_requests(const Engine& engine, const ScoreLine& line, const ScoreOptions& options);

// The sum over a line's tokens.
struct TextScore {
  double log_probability = 0;  // natural log
  uint64_t tokens = 0;
  bool is_greedy = true;  // each token is the likeliest in its place
  std::vector<int32_t> token_ids = {};
  std::vector<float> log_probabilities = {};

  void add(const Response& response);
  double perplexity() const;  // exp of the mean negative log-probability
};

}  // namespace serval::cli
