// Which clients may ask: the keys that they send as "Authorization: Bearer KEY".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace serval::server {

// Whether both are the same, in a time that depends on the length of `given` alone.
bool equal_in_constant_time(std::string_view given, std::string_view expected);

class ApiKeys {
 public:
  struct Key {
    std::string name;  // for logs and for fairness
    std::string key;
  };

  // Lines "NAME:KEY" or "KEY"; empty ones, and those that begin with '#', are none. Throws Error(kUsage) for
  // a file that cannot be read, holds no key, or a line that is no key: it never shows one.
  static ApiKeys read(const std::filesystem::path& path);

  // Throws Error(kUsage) for a key that is empty or has other than printable ASCII characters without spaces.
  void add(Key key);
  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  // The key's name; null where there are keys and this is none of them. Without keys everybody is
  // "anonymous".
  const std::string* name_of(std::string_view authorization) const;

 private:
  std::vector<Key> keys_;
};

}  // namespace serval::server
