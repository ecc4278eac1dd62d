// Requests that wait for the engine, fair among those who ask. No threads, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

namespace serval::server {

// The next is of the key that has the fewest answers in the engine; of equals, of the one that was served
// longest ago. Of one key's requests it is the one of the smallest priority, and then the first that came.
// So a key that asks for much does not make another wait, and a priority counts among the key's own requests.
class FairQueue {
 public:
  struct Ticket {
    uint64_t id = 0;  // ascending in the order of arrival
    std::string key = {};
    int priority = 0;
    uint32_t answers = 1;
  };

  void push(const Ticket& ticket);
  // Takes the next out of the queue; its answers are in the engine from then on.
  std::optional<uint64_t> pop();
  // It does not wait any more. False if it did not.
  bool erase(const Ticket& ticket);
  // A ticket that was popped has ended.
  void end(const Ticket& ticket);
  size_t size() const { return size_; }
  uint32_t in_engine() const { return in_engine_; }  // answers

 private:
  using Place = std::tuple<int, uint64_t>;  // priority, id
  struct Client {
    std::map<Place, uint32_t> waiting;  // → answers
    uint32_t in_engine = 0;
    uint64_t served = 0;  // when it was last
  };
  void forget_if_idle(const std::string& key);

  std::unordered_map<std::string, Client> clients_;
  size_t size_ = 0;
  uint32_t in_engine_ = 0;
  uint64_t served_ = 0;
};

}  // namespace serval::server
