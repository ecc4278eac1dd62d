// Configurations of a grammar's pushdown automaton: sets of states, each with its stack of return states.
// Equal configurations have the same id, and transitions are cached.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

using ConfigId = uint32_t;
inline constexpr ConfigId kDead = 0;  // nothing can follow

// Not thread-safe. Memory grows with use; see bytes().
class Configurations {
 public:
  // `grammar` must outlive it. `longest_token`: upper bound of a token's bytes, for canonical().
  Configurations(const Grammar& grammar, uint32_t longest_token);

  // Limit of the items of a configuration. Further alternatives are dropped; every remaining one can still be
  // completed.
  static constexpr size_t kMaxItems = 128;
  // Limit of the places that are visited to find the items.
  static constexpr size_t kMaxReached = 4 * kMaxItems;

  ConfigId start() const { return start_; }
  // The configuration after `byte`; kDead if the grammar does not allow it.
  ConfigId after(ConfigId config, uint8_t byte) {
    const ConfigId known = rows_[config] ? (*rows_[config])[byte] : kUnknown;
    return known != kUnknown ? known : find_after(config, byte);
  }
  bool is_known_after(ConfigId config, uint8_t byte) const {
    return rows_[config] && (*rows_[config])[byte] != kUnknown;
  }
  // Cost of all transitions computed so far, to bound the time of a search.
  uint64_t work() const { return work_; }
  // As after(), without storing the transition: for a byte that is unlikely to follow this configuration
  // again.
  ConfigId after_uncached(ConfigId config, uint8_t byte);
  // True if the text may end here.
  bool is_complete(ConfigId config) const { return configs_[config].complete; }
  // True if alternatives were dropped to reach it.
  bool is_cut(ConfigId config) const { return configs_[config].cut; }
  size_t num_items(ConfigId config) const { return configs_[config].items.size(); }
  // Number of arbitrary characters that a JSON string may continue with here; 0 outside of strings.
  uint32_t text_room(ConfigId config) const { return configs_[config].text_room; }
  // A configuration that allows the same tokens. Loop counts on the stack are replaced by a common value if
  // no token is long enough to reach a limit of the loop. So fewer masks are needed.
  ConfigId canonical(ConfigId config);

  // A copy of a configuration without ids. Another object of the same grammar can restore it.
  class Saved;
  Saved saved(ConfigId config) const;
  ConfigId restored(const Saved& saved);

  size_t bytes() const;

 private:
  using StackId = uint32_t;
  static constexpr StackId kEmptyStack = 0;
  static constexpr ConfigId kUnknown = UINT32_MAX;

  // `count`: for a loop, how often its body was read. Without an upper limit it stops at the lower one.
  struct Place {
    StateId state;
    uint32_t count;
    friend bool operator==(const Place&, const Place&) = default;
    friend bool operator<(const Place& a, const Place& b) {
      return std::tie(a.state, a.count) < std::tie(b.state, b.count);
    }
  };
  struct Item {
    Place place;
    StackId stack;  // return places of the open rule calls
    friend bool operator==(const Item&, const Item&) = default;
    friend bool operator<(const Item& a, const Item& b) {
      return std::tie(a.place, a.stack) < std::tie(b.place, b.stack);
    }
  };
  struct Frame {
    Place place;
    StackId below;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  struct Config {
    std::vector<Item> items;  // sorted; each can read a byte
    bool complete = false;
    bool cut = false;
    uint32_t text_room = 0;
    friend bool operator==(const Config& a, const Config& b) {
      return a.complete == b.complete && a.cut == b.cut && a.items == b.items;
    }
  };
  struct Hash {
    size_t operator()(const Frame& frame) const;
    size_t operator()(const Config& config) const;
  };
  using Row = std::array<ConfigId, 256>;

  // A configuration while reach() builds it.
  struct Reached {
    std::vector<Item> seen;  // all items visited, also those that cannot read a byte
    Config config;
  };
  void reach(Item item, Reached& reached);
  void reach_end(StackId stack, Reached& reached);
  void reach_loop(const Item& item, const Loop& loop, Reached& reached);
  ConfigId find_after(ConfigId config, uint8_t byte);
  std::vector<Place> places(StackId stack) const;
  StackId push(StackId stack, Place place);
  ConfigId intern(Config config);
  Place canonical(Place place) const;
  StackId canonical_stack(StackId stack);

  const Grammar& grammar_;
  const uint32_t longest_token_;
  std::vector<Frame> frames_;  // frames_[0]: the empty stack
  std::unordered_map<Frame, StackId, Hash> stack_of_;
  std::vector<Config> configs_;  // configs_[kDead] has no items
  std::unordered_map<Config, ConfigId, Hash> config_of_;
  std::vector<std::unique_ptr<Row>> rows_;  // cached transitions of each configuration; null: none yet
  size_t num_rows_ = 0;
  uint64_t work_ = 0;
  ConfigId start_;
};

class Configurations::Saved {
 private:
  friend class Configurations;
  struct Alternative {
    Place place;
    std::vector<Place> stack;  // top first
  };
  std::vector<Alternative> alternatives_;
  bool complete_ = false;
  uint32_t text_room_ = 0;
};

}  // namespace serval::grammar
