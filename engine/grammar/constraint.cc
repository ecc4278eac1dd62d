#include "engine/grammar/constraint.h"

#include <unordered_set>
#include <utility>

#include "engine/grammar/markers.h"
#include "vm/base/error.h"

namespace serval::grammar {

namespace {

// Removes the bytes that are not a token by themselves. So some token can always come next.
Grammar restricted_to_tokens(Grammar grammar, const TokenTrie& trie) {
  grammar.keep_bytes([&](uint8_t byte) { return trie.has_byte(byte); });
  try {
    grammar.finish();
  } catch (const Error&) {
    throw Error(ErrorKind::kUsage, "the model's tokens cannot spell any text of the required format");
  }
  return grammar;
}

}  // namespace

Constraint::Constraint(Grammar grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(restricted_to_tokens(std::move(grammar), *trie)), trie_(std::move(trie)) {
  empty_caches();
}

void Constraint::empty_caches() {
  masks_.reset();
  configurations_ = std::make_unique<Configurations>(grammar_, trie_->longest_token());
  masks_ = std::make_unique<TokenMasks>(*trie_, *configurations_);
}

bool Constraint::caches_are_full() const {
  return configurations_->bytes() > kMaxCacheBytes || masks_->bytes() > kMaxCacheBytes;
}

Constraint::Place Constraint::place_of(ConfigId config) {
  return {configurations_->saved(config), masks_->mask(config), configurations_->is_complete(config)};
}

void Constraint::precompute_masks() {
  const std::lock_guard lock(mutex_);
  std::vector<ConfigId> places = {configurations_->canonical(configurations_->start())};
  std::unordered_set<ConfigId> seen(places.begin(), places.end());
  for (size_t i = 0; i < places.size() && i < kFirstMasks; ++i) {
    masks_->mask(places[i]);
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const ConfigId to =
          configurations_->canonical(configurations_->after(places[i], static_cast<uint8_t>(byte)));
      if (to != kDead && seen.insert(to).second) places.push_back(to);
    }
  }
}

Constraint::Place Constraint::start() {
  const std::lock_guard lock(mutex_);
  return place_of(configurations_->start());
}

Constraint::Place Constraint::after(const Place& place, int32_t token) {
  const std::lock_guard lock(mutex_);
  if (caches_are_full()) empty_caches();
  return place_of(masks_->after(configurations_->restored(place.at), token));
}

std::string Constraint::text_of(int32_t token) const {
  std::string text;
  for (const char c : trie_->text_of(token)) {
    const size_t marker = static_cast<uint8_t>(c) - size_t{kFirstMarkerByte};
    if (marker < kNumMarkers) {
      text += kMarkers[marker];
    } else {
      text += c;
    }
  }
  return text;
}

ConstrainedText::ConstrainedText(std::shared_ptr<Constraint> constraint,
                                 const std::optional<ReasoningLimit>& limit)
    : constraint_(std::move(constraint)) {
  if (limit) limited_ = Limited{ReasoningTokens(limit->reasoning), *limit};
  if (limited_ && limited_->reached()) {
    constraint_ = limited_->limit.ending;
    limited_.reset();
  }
  place_ = constraint_->start();
}

void ConstrainedText::add(int32_t token) {
  place_ = after(token);
  if (!limited_) return;
  limited_->tokens.add(constraint_->text_of(token));
  if (!limited_->reached()) return;
  constraint_ = limited_->limit.ending;
  limited_.reset();
}

Constraint::Place ConstrainedText::after(int32_t token) const {
  if (limited_) {
    Limited next = *limited_;
    next.tokens.add(constraint_->text_of(token));
    if (next.reached()) return next.limit.ending->start();
  }
  return constraint_->after(place_, token);
}

}  // namespace serval::grammar
