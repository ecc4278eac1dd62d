// API keys, which clients send as "Authorization: Bearer KEY" or "X-Api-Key: KEY".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace serval::server {

// Compares in a time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view given, std::string_view expected);

class ApiKeys {
 public:
  struct Key {
    std::string name;  // for logs and for fairness
    std::string key;
  };

  // Reads lines "NAME:KEY" or "KEY"; skips empty lines and lines that begin with '#'. Throws Error(kUsage) if
  // the file cannot be read, has no key or has a bad line. Messages never show a key.
  static ApiKeys read(const std::filesystem::path& path);

  // Throws Error(kUsage) unless the key is 1 to 512 printable ASCII characters without spaces.
  void add(Key key);
  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  // The name of the key in the header's value `authorization`; null if it is not one of the keys. Without
  // keys, always "anonymous".
  const std::string* name_of(std::string_view authorization) const;
  // Likewise, for the value of the header X-Api-Key, which is a key alone.
  const std::string* name_of_key(std::string_view key) const;

 private:
  std::vector<Key> keys_;
};

}  // namespace serval::server
