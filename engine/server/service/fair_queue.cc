#include "engine/server/service/fair_queue.h"

namespace serval::server {

void FairQueue::push(const Ticket& ticket) {
  clients_[ticket.key].waiting.emplace(Order(ticket.priority, ticket.id), ticket.answers);
  ++size_;
}

std::optional<uint64_t> FairQueue::pop() {
  Client* next = nullptr;
  for (auto& [key, client] : clients_) {
    if (client.waiting.empty()) continue;
    const auto rank = [](const Client& of) { return std::tuple(of.in_engine, of.served); };
    // Among keys that were never served, the key with the oldest request is next.
    const auto first = [](const Client& of) { return std::get<1>(of.waiting.begin()->first); };
    if (next == nullptr || rank(client) < rank(*next) ||
        (rank(client) == rank(*next) && first(client) < first(*next)))
      next = &client;
  }
  if (next == nullptr) return std::nullopt;
  const auto ticket = next->waiting.begin();
  const uint64_t id = std::get<1>(ticket->first);
  next->in_engine += ticket->second;
  in_engine_ += ticket->second;
  next->served = ++served_;
  next->waiting.erase(ticket);
  --size_;
  return id;
}

bool FairQueue::erase(const Ticket& ticket) {
  const auto client = clients_.find(ticket.key);
  if (client == clients_.end()) return false;
  if (client->second.waiting.erase(Order(ticket.priority, ticket.id)) == 0) return false;
  --size_;
  forget_if_idle(ticket.key);
  return true;
}

void FairQueue::end(const Ticket& ticket) {
  const auto client = clients_.find(ticket.key);
  if (client == clients_.end()) return;
  client->second.in_engine -= ticket.answers;
  in_engine_ -= ticket.answers;
  forget_if_idle(ticket.key);
}

void FairQueue::forget_if_idle(const std::string& key) {
  const Client& client = clients_.at(key);
  if (client.waiting.empty() && client.in_engine == 0) clients_.erase(key);
}

}  // namespace serval::server
