#include "engine/core/kv_domains.h"

namespace serval {

uint64_t KvDomains::of(const std::string& salt) {
  if (salt.empty()) return kUnsalted;
  if (const auto known = by_salt_.find(salt); known != by_salt_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
    return known->second->domain;
  }
  if (entries_.size() == most_) {
    by_salt_.erase(entries_.back().salt);
    entries_.pop_back();
  }
  entries_.push_front({salt, ++last_});
  by_salt_.emplace(salt, entries_.begin());
  return last_;
}

}  // namespace serval
