#include "engine/grammar/configurations.h"

#include <algorithm>
#include <utility>

namespace serval::grammar {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
  hash = (hash ^ value) * kMultiplier;
  return hash ^ hash >> 32;
}

}  // namespace

size_t Configurations::Hash::operator()(const Frame& f) const {
  return mix(mix(f.place.state, f.place.count), f.below);
}

size_t Configurations::Hash::operator()(const Config& config) const {
  uint64_t hash = (config.complete ? 1U : 0U) + (config.cut ? 2U : 0U);
  for (const Item& i : config.items) hash = mix(mix(mix(hash, i.place.state), i.place.count), i.stack);
  return hash;
}

Configurations::Configurations(const Grammar& grammar, uint32_t longest_token)
    : grammar_(grammar), longest_token_(longest_token), frames_(1) {
  intern({});
  Reached reached;
  reach({{grammar.start(grammar.top()), 0}, kEmptyStack}, reached);
  start_ = intern(std::move(reached.config));
}

// Follows all edges that read nothing.
void Configurations::reach(Item item, Reached& reached) {
  if (std::ranges::find(reached.seen, item) != reached.seen.end()) return;
  if (reached.seen.size() >= kMaxReached || reached.config.items.size() >= kMaxItems) {
    reached.config.cut = true;
    return;
  }
  reached.seen.push_back(item);
  const State& state = grammar_.state(item.place.state);
  if (state.accepts) reach_end(item.stack, reached);
  if (state.loop) reach_loop(item, *state.loop, reached);
  if (!state.bytes.empty()) reached.config.items.push_back(item);
  for (const StateId to : state.jumps) reach({{to, 0}, item.stack}, reached);
  for (const CallEdge& call : state.calls)
    reach({{grammar_.start(call.rule), 0}, push(item.stack, {call.to, 0})}, reached);
}

void Configurations::reach_end(StackId stack, Reached& reached) {
  if (stack == kEmptyStack) {
    reached.config.complete = true;
    return;
  }
  const Frame frame = frames_[stack];
  reach({frame.place, frame.below}, reached);
}

void Configurations::reach_loop(const Item& item, const Loop& loop, Reached& reached) {
  const uint32_t count = item.place.count;
  if (count >= loop.least) reach({{loop.exit, 0}, item.stack}, reached);
  if (count >= loop.most) return;
  if (loop.is_text) reached.config.text_room = std::max(reached.config.text_room, loop.most - count);
  const uint32_t next = loop.most == kNoLimit ? std::min(count + 1, loop.least) : count + 1;
  reach({{grammar_.start(loop.body), 0}, push(item.stack, {item.place.state, next})}, reached);
}

Configurations::StackId Configurations::push(StackId stack, Place place) {
  // Tail call: if the rule has nothing left to read after the call, the stack does not grow.
  const State& state = grammar_.state(place.state);
  const bool only_ends =
      state.accepts && !state.loop && state.bytes.empty() && state.calls.empty() && state.jumps.empty();
  if (only_ends) return stack;
  const Frame frame = {place, stack};
  const auto [found, is_new] = stack_of_.try_emplace(frame, static_cast<StackId>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return found->second;
}

ConfigId Configurations::intern(Config config) {
  std::sort(config.items.begin(), config.items.end());
  const auto [found, is_new] =
      config_of_.try_emplace(std::move(config), static_cast<ConfigId>(configs_.size()));
  if (is_new) {
    configs_.push_back(found->first);
    rows_.emplace_back();
  }
  return found->second;
}

ConfigId Configurations::after_uncached(ConfigId config, uint8_t byte) {
  Reached reached;
  const std::vector<Item> items = configs_[config].items;
  for (const Item& item : items) {
    for (const ByteEdge& edge : grammar_.state(item.place.state).bytes) {
      if (byte >= edge.first && byte <= edge.last) reach({{edge.to, 0}, item.stack}, reached);
    }
  }
  work_ += reached.seen.size() * reached.seen.size() + 1;  // reach() searches `seen` for each item
  return intern(std::move(reached.config));
}

ConfigId Configurations::find_after(ConfigId config, uint8_t byte) {
  // All edges read the bytes from `first` to `last` alike, so one step suffices for them.
  uint32_t first = 0, last = UINT8_MAX;
  for (const Item& item : configs_[config].items) {
    for (const ByteEdge& edge : grammar_.state(item.place.state).bytes) {
      if (edge.first > byte) {
        last = std::min(last, edge.first - 1U);
      } else if (edge.last < byte) {
        first = std::max(first, edge.last + 1U);
      } else {
        first = std::max<uint32_t>(first, edge.first);
        last = std::min<uint32_t>(last, edge.last);
      }
    }
  }
  const ConfigId to = after_uncached(config, byte);
  if (!rows_[config]) {
    rows_[config] = std::make_unique<Row>();
    rows_[config]->fill(kUnknown);
    ++num_rows_;
  }
  std::fill(rows_[config]->begin() + first, rows_[config]->begin() + last + 1, to);
  return to;
}

// All counts that no token can bring to a limit of the loop behave alike.
Configurations::Place Configurations::canonical(Place place) const {
  const State& state = grammar_.state(place.state);
  if (!state.loop) return place;
  const uint32_t least = state.loop->least, most = state.loop->most;
  if (most - place.count <= longest_token_) return place;
  if (place.count >= least) return {place.state, least};
  return least - place.count > longest_token_ ? Place{place.state, 0} : place;
}

std::vector<Configurations::Place> Configurations::places(StackId stack) const {
  std::vector<Place> all;
  for (StackId s = stack; s != kEmptyStack; s = frames_[s].below) all.push_back(frames_[s].place);
  return all;
}

Configurations::StackId Configurations::canonical_stack(StackId stack) {
  const std::vector<Place> all = places(stack);
  StackId copy = kEmptyStack;
  for (size_t i = all.size(); i-- > 0;) copy = push(copy, canonical(all[i]));
  return copy;
}

Configurations::Saved Configurations::saved(ConfigId config) const {
  Saved saved;
  saved.complete_ = configs_[config].complete;
  saved.text_room_ = configs_[config].text_room;
  for (const Item& item : configs_[config].items)
    saved.alternatives_.push_back({item.place, places(item.stack)});
  return saved;
}

ConfigId Configurations::restored(const Saved& saved) {
  Config config;
  config.complete = saved.complete_;
  config.text_room = saved.text_room_;
  for (const Saved::Alternative& alternative : saved.alternatives_) {
    StackId stack = kEmptyStack;
    for (size_t i = alternative.stack.size(); i-- > 0;) stack = push(stack, alternative.stack[i]);
    config.items.push_back({alternative.place, stack});
  }
  return intern(std::move(config));
}

ConfigId Configurations::canonical(ConfigId config) {
  Config copy = configs_[config];
  for (Item& item : copy.items) item.stack = canonical_stack(item.stack);
  std::sort(copy.items.begin(), copy.items.end());
  copy.items.erase(std::unique(copy.items.begin(), copy.items.end()), copy.items.end());
  return intern(std::move(copy));
}

size_t Configurations::bytes() const {
  constexpr size_t kOfMaps = 2;  // the maps store a second copy of each
  return num_rows_ * sizeof(Row) +
         kOfMaps * (configs_.size() * (sizeof(Config) + 4 * sizeof(Item)) + frames_.size() * sizeof(Frame));
}

}  // namespace serval::grammar
