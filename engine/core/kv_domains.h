// Hash domains of KV blocks, one for each cache salt: sequences share blocks only within a domain.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

namespace serval {

// Compares salts themselves, not hashes of them: two salts never share blocks, even if they were chosen to.
// Both arithmetic classes share a domain, because which class computed the keys of generated tokens depends
// on the size of the pass, unless all programs have the same class. One thread at a time.
class KvDomains {
 public:
  static constexpr uint64_t kUnsalted = 0;

  // Remembers the `most` salts that were used last, at least 1. A forgotten salt gets a new domain, in which
  // no blocks are. There is no use in remembering more salts than there are blocks.
  explicit KvDomains(size_t most) : most_(most == 0 ? 1 : most) {}

  // kUnsalted for the empty salt. Other domains are never given to a second salt.
  uint64_t of(const std::string& salt);

 private:
  struct Entry {
    std::string salt;
    uint64_t domain;
  };

  const size_t most_;
  uint64_t last_ = kUnsalted;
  std::list<Entry> entries_;  // the salt that was used last comes first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_salt_;
};

}  // namespace serval
