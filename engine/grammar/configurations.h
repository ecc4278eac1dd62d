// What a grammar's automaton can be in the midst of: a set of its states, each with the stack of those that
// it goes on at. Equal ones have the same number, and where a byte leads is found out once.
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

// Not thread-safe. What it has found out grows with use: bytes() says how far.
class Configurations {
 public:
  // `grammar` outlives it. No token that is asked about has more than `longest_token` bytes.
  Configurations(const Grammar& grammar, uint32_t longest_token);

  ConfigId start() const { return start_; }
  ConfigId after(ConfigId config, uint8_t byte) {
    const ConfigId known = rows_[config] ? (*rows_[config])[byte] : kUnknown;
    return known != kUnknown ? known : find_after(config, byte);
  }
  bool is_known_after(ConfigId config, uint8_t byte) const {
    return rows_[config] && (*rows_[config])[byte] != kUnknown;
  }
  // Places that were looked at so far, to find out where bytes lead.
  uint64_t work() const { return work_; }
  // The same, for a byte that is not likely to come here again.
  ConfigId after_once(ConfigId config, uint8_t byte);
  // The text may end here.
  bool is_complete(ConfigId config) const { return configs_[config].complete; }
  // Characters that a JSON string may go on with here, at any rate; 0 outside of strings.
  uint32_t text_room(ConfigId config) const { return configs_[config].text_room; }
  // One that has the same tokens: what is further away than a token's length is forgotten.
  ConfigId nearby(ConfigId config);

  // A configuration by itself, which another object of the same grammar can go on from.
  class Saved;
  Saved saved(ConfigId config) const;
  ConfigId restored(const Saved& saved);

  size_t bytes() const;

 private:
  using StackId = uint32_t;
  static constexpr StackId kEmptyStack = 0;
  static constexpr ConfigId kUnknown = UINT32_MAX;
  // Of one configuration. Beyond, alternatives are left out; what is left can be completed all the same.
  static constexpr size_t kMaxItems = 128;

  // `count`: of a loop, how often its body has been read, as far as it matters.
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
    StackId stack;  // where it goes on when its rule has ended
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
    std::vector<Item> items;  // sorted; all can read a byte
    bool complete = false;
    uint32_t text_room = 0;
    friend bool operator==(const Config& a, const Config& b) {
      return a.complete == b.complete && a.items == b.items;
    }
  };
  struct Hash {
    size_t operator()(const Frame& frame) const;
    size_t operator()(const Config& config) const;
  };
  using Row = std::array<ConfigId, 256>;

  // A configuration in the making.
  struct Reached {
    std::vector<Item> seen;  // all places that were come by
    Config config;
  };
  void reach(Item item, Reached& reached);
  void reach_end(StackId stack, Reached& reached);
  void reach_loop(const Item& item, const Loop& loop, Reached& reached);
  ConfigId find_after(ConfigId config, uint8_t byte);
  std::vector<Place> places(StackId stack) const;
  StackId push(StackId stack, Place place);
  ConfigId intern(Config config);
  Place nearby(Place place) const;
  StackId nearby_stack(StackId stack);

  const Grammar& grammar_;
  const uint32_t longest_token_;
  std::vector<Frame> frames_;  // frames_[0]: the empty stack
  std::unordered_map<Frame, StackId, Hash> stack_of_;
  std::vector<Config> configs_;  // configs_[kDead] has no items
  std::unordered_map<Config, ConfigId, Hash> config_of_;
  std::vector<std::unique_ptr<Row>> rows_;  // of each configuration that a byte was read from
  size_t num_rows_ = 0;
  uint64_t work_ = 0;
  ConfigId start_;
};

class Configurations::Saved {
 private:
  friend class Configurations;
  struct Alternative {
    Place place;
    std::vector<Place> stack;  // its top first
  };
  std::vector<Alternative> alternatives_;
  bool complete_ = false;
  uint32_t text_room_ = 0;
};

}  // namespace serval::grammar
