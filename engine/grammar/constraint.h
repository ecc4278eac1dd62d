// A grammar that the texts of requests keep to, and how far each of the texts is.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/grammar/configurations.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_masks.h"
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// What texts of one grammar share: masks that one of them has needed are there for the others. Thread-safe.
class Constraint {
 public:
  // Bytes that no token is alone do not come in any text. Throws Error(kUsage) where no text is left.
  Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie);
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  // Finds the masks of the places that a text comes to first, so that texts find them there.
  void find_first_masks();

  // How far a text is, and how it may go on.
  struct Place {
    Configurations::Saved at;
    std::shared_ptr<const Mask> mask;  // tokens that can come next
    bool complete = false;             // it may end here
  };
  Place start();
  // After a token that the mask allowed.
  Place after(const Place& place, int32_t token);

 private:
  // Of configurations and masks, each: beyond, they are forgotten and found anew.
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

// The text of one answer. Not thread-safe.
class ConstrainedText {
 public:
  explicit ConstrainedText(std::shared_ptr<Constraint> constraint)
      : constraint_(std::move(constraint)), place_(constraint_->start()) {}

  // One that the mask allowed.
  void add(int32_t token) { place_ = after(token); }
  const Constraint::Place& place() const { return place_; }
  // Where the text would be after it.
  Constraint::Place after(int32_t token) const { return constraint_->after(place_, token); }

 private:
  std::shared_ptr<Constraint> constraint_;
  Constraint::Place place_;
};

}  // namespace serval::grammar
