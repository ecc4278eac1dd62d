// The files of a GGUF model: one, or a set that was split, NAME-00001-of-0000N.gguf and so on, opened by its
// first.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/gguf/gguf_file.h"

namespace serval {

// Immutable; all functions may be called from several threads.
class GgufSet {
 public:
  // Throws Error(kRuntime) with one line that names the file where one is missing, damaged or of another set.
  explicit GgufSet(const std::filesystem::path& first);
  GgufSet(const GgufSet&) = delete;  // tensors are found by address
  GgufSet& operator=(const GgufSet&) = delete;

  const std::string& path() const { return files_.front().path(); }
  // Of the first file, which has all but the tensors' places.
  const GgufFields& fields() const { return files_.front().fields(); }
  // Null where there is none.
  const GgufTensor* find(std::string_view name) const;
  std::vector<const GgufTensor*> tensors() const;  // by name
  // Of a tensor of this set.
  const std::string& path_of(const GgufTensor& tensor) const;

 private:
  void add(const std::filesystem::path& path, int64_t number, int64_t count);

  struct Entry {
    const GgufTensor* tensor;
    size_t file;
  };
  std::deque<GgufFile> files_;  // references to a file stay valid while more are opened
  std::map<std::string_view, Entry> entries_;
};

}  // namespace serval
