// Many requests of all kinds at once, with a KV cache that holds a tenth of them: each must get exactly the
// bits that it gets alone. For any backend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "serval/engine.h"

namespace serval::testing {

class RandomRequests : public ::testing::Test {
 protected:
  // KV blocks of an engine, and sequences that run together.
  struct Size {
    uint32_t kv_blocks;
    int sequences;
  };
  using LoadEngine = std::function<Engine(const Size&)>;

  // For sequences of up to `context` tokens with prompts of up to `longest_prompt`.
  RandomRequests(int context, int longest_prompt) : context_(context), longest_prompt_(longest_prompt) {}

  // Makes the first `count` requests, changed by `change`, and computes what each gets alone.
  void prepare(size_t count, const LoadEngine& load, const std::function<void(Request&)>& change = {});
  // Runs all requests together; some are cancelled, some are late from the beginning. Returns a description
  // of the first one that differs from what it gets alone, or "" if none does. Every block must be released.
  std::string first_difference(const LoadEngine& load);
  // first_difference() must be empty.
  void run(const LoadEngine& load) { EXPECT_EQ(first_difference(load), ""); }
  // Statistics of the last run.
  const EngineStats& stats() const { return stats_; }
  // Number of answers with this finish.
  size_t ends(Finish how) const { return ends_.contains(how) ? ends_.at(how) : 0; }

 private:
  uint32_t blocks_for_a_tenth() const;

  const int context_, longest_prompt_;
  std::vector<Request> requests_;
  std::vector<std::vector<Response>> expected_;
  EngineStats stats_;
  std::map<Finish, size_t> ends_;
};

// Makes prompts short and answers long, so that sequences that run together run out of blocks.
void make_answers_long(Request& request);

}  // namespace serval::testing
