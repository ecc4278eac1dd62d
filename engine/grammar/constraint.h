// Constrained decoding: a grammar, its token masks, and the progress of each text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/answer/reasoning_tokens.h"
#include "engine/grammar/configurations.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_masks.h"
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// A grammar with its cached token masks, shared by all texts that use it. Thread-safe.
class Constraint {
 public:
  // Removes from the grammar all bytes that are not a token by themselves, so that every text can be
  // completed. Throws Error(kUsage) if no text remains.
  Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie);
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  // Computes the masks of the first 128 configurations that a text can reach, before any text needs them.
  void precompute_masks();

  // A text's position in the grammar.
  struct Place {
    Configurations::Saved at;
    std::shared_ptr<const Mask> mask;  // tokens that may come next
    bool complete = false;             // whether the text may end here
  };
  Place start();
  // The place after `token`, which the mask must allow.
  Place after(const Place& place, int32_t token);
  // The text of a token, with markers written out; empty for a token that the grammar cannot read.
  std::string text_of(int32_t token) const;

 private:
  // Limit for the configurations and for the masks. Beyond it, both caches are emptied.
  static constexpr size_t kMaxCacheBytes = size_t{16} << 20;
  static constexpr size_t kFirstMasks = 128;

  void empty_caches();
  bool caches_are_full() const;
  Place place_of(ConfigId config);

  const Grammar grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;
  std::unique_ptr<Configurations> configurations_;
  std::unique_ptr<TokenMasks> masks_;
};

// Ends reasoning after a number of tokens.
struct ReasoningLimit {
  Reasoning reasoning = Reasoning::kNone;
  uint32_t tokens = 0;
  std::shared_ptr<Constraint> ending = nullptr;  // of the text from </think> on
};

// The progress of one answer's text. Not thread-safe.
class ConstrainedText {
 public:
  explicit ConstrainedText(std::shared_ptr<Constraint> constraint,
                           const std::optional<ReasoningLimit>& limit = std::nullopt);

  // `token` must be allowed by the mask.
  void add(int32_t token);
  const Constraint::Place& place() const { return place_; }
  // The place after `token`, without adding it.
  Constraint::Place after(int32_t token) const;

 private:
  // The reasoning, while its limit may still end it.
  struct Limited {
    ReasoningTokens tokens;
    ReasoningLimit limit;
    bool reached() const { return tokens.is_open() && tokens.count() >= limit.tokens; }
  };

  std::shared_ptr<Constraint> constraint_;
  std::optional<Limited> limited_;
  Constraint::Place place_;
};

}  // namespace serval::grammar
