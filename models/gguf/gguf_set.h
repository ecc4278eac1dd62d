// The files of a GGUF model: one file, or a split set NAME-00001-of-0000N.gguf, NAME-00002-of-0000N.gguf, …
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

// Immutable and thread-safe.
class GgufSet {
 public:
  // Opens all files of the set; `first` is the first one. Throws Error(kRuntime) with one line that names the
  // file if one is missing, damaged or of another set.
  explicit GgufSet(const std::filesystem::path& first);
  GgufSet(const GgufSet&) = delete;  // entries_ points into files_
  GgufSet& operator=(const GgufSet&) = delete;

  const std::string& path() const { return files_.front().path(); }
  // Fields of the first file, which has all metadata.
  const GgufFields& fields() const { return files_.front().fields(); }
  // Null if there is no tensor of that name.
  const GgufTensor* find(std::string_view name) const;
  std::vector<const GgufTensor*> tensors() const;  // sorted by name
  // Path of the file that holds a tensor of this set.
  const std::string& path_of(const GgufTensor& tensor) const;

 private:
  void add(const std::filesystem::path& path, int64_t number, int64_t count);

  struct Entry {
    const GgufTensor* tensor;
    size_t file;
  };
  std::deque<GgufFile> files_;  // a deque keeps references valid while files are added
  std::map<std::string_view, Entry> entries_;
};

}  // namespace serval
