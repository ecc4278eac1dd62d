// Queue of requests that wait for the engine, fair among API keys. No threads, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

namespace serval::server {

// The next request belongs to the key with the fewest answers in the engine; among equals, to the key served
// longest ago. Within a key, requests are ordered by priority (smallest first), then by arrival. So a key
// with many requests does not delay the others, and priorities matter only within a key.
class FairQueue {
 public:
  struct Ticket {
    uint64_t id = 0;  // ascending in the order of arrival
    std::string key = {};
    int priority = 0;
    uint32_t answers = 1;
  };

  void push(const Ticket& ticket);
  // Removes the next request and returns its id; counts its answers as in the engine from then on.
  std::optional<uint64_t> pop();
  // Removes a waiting request. Returns false if it was not waiting.
  bool erase(const Ticket& ticket);
  // Call when a popped request has ended.
  void end(const Ticket& ticket);
  size_t size() const { return size_; }
  uint32_t in_engine() const { return in_engine_; }  // answers

 private:
  using Order = std::tuple<int, uint64_t>;  // priority, id
  struct Client {
    std::map<Order, uint32_t> waiting;  // → answers
    uint32_t in_engine = 0;
    uint64_t served = 0;  // value of served_ after its last pop(); 0: never
  };
  void forget_if_idle(const std::string& key);

  std::unordered_map<std::string, Client> clients_;
  size_t size_ = 0;
  uint32_t in_engine_ = 0;
  uint64_t served_ = 0;  // number of pops
};

}  // namespace serval::server
