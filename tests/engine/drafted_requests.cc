#include "tests/engine/drafted_requests.h"

#include <algorithm>
#include <vector>

namespace serval::testing {

EngineOptions DraftedRequests::drafting(EngineOptions options, int draft_max, int ngram_min) {
  options.speculation = {.method = Speculation::Method::kNgram,
                         .draft_max = draft_max,
                         .draft_min = 1,
                         .ngram_min = ngram_min,
                         .ngram_max = 4};
  return options;
}

void DraftedRequests::allow_drafts(Request& request) {
  const size_t kind = request.prompt_ids.size() % 5;
  if (kind == 0) return;
  request.sampling.repetition_penalty = 1;
  request.sampling.presence_penalty = request.sampling.frequency_penalty = 0;
  request.top_logprobs = 0;
  if (kind == 1) return;
  request.sampling.temperature /= 4;
  request.max_tokens = std::max(request.max_tokens, 40);
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  request.prompt_ids.resize(std::min<size_t>(request.prompt_ids.size(), 200));
  request.prompt_logprobs.reset();
  const std::vector<int32_t> once = request.prompt_ids;
  for (int i = 0; i < 2; ++i) request.prompt_ids.insert(request.prompt_ids.end(), once.begin(), once.end());
  request.speculative = kind != 2;
}

void DraftedRequests::expect_drafts() {
  const DraftStats& drafts = stats().drafts;
  EXPECT_GT(drafts.passes, 0U);
  EXPECT_GT(drafts.accepted, 0U) << "of " << drafts.drafted;
  EXPECT_LT(drafts.accepted, drafts.drafted);
  uint64_t by_place = 0;
  for (const uint64_t accepted : drafts.accepted_at) by_place += accepted;
  EXPECT_EQ(by_place, drafts.accepted);
}

}  // namespace serval::testing
