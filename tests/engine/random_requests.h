// Many requests of all kinds at once, under a KV cache that holds a tenth of them: each must get, to the bit,
// what it gets alone. For any backend.
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
  // An engine whose KV cache has so many blocks, in which so many sequences run together.
  struct Size {
    uint32_t kv_blocks;
    int sequences;
  };
  using LoadEngine = std::function<Engine(const Size&)>;

  // For sequences of up to `context` tokens, whose prompts have up to `longest_prompt`.
  RandomRequests(int context, int longest_prompt) : context_(context), longest_prompt_(longest_prompt) {}

  // The first `count` requests, changed, and what each gets alone.
  void prepare(size_t count, const LoadEngine& load, const std::function<void(Request&)>& change = {});
  // All requests together; some are cancelled on the way, some too late from the beginning. Says of the first
  // that did not get what it gets alone where it differs; empty: there is none. Every block must come back.
  std::string first_difference(const LoadEngine& load);
  // The same, which must be empty.
  void run(const LoadEngine& load) { EXPECT_EQ(first_difference(load), ""); }
  // Of the last run.
  const EngineStats& stats() const { return stats_; }
  // Answers that ended so.
  size_t ends(Finish how) const { return ends_.contains(how) ? ends_.at(how) : 0; }

 private:
  uint32_t blocks_for_a_tenth() const;

  const int context_, longest_prompt_;
  std::vector<Request> requests_;
  std::vector<std::vector<Response>> expected_;
  EngineStats stats_;
  std::map<Finish, size_t> ends_;
};

// Of short prompts, so that those that run together run out of blocks on the way.
void make_answers_long(Request& request);

}  // namespace serval::testing
