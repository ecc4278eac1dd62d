// Writes the safetensors files of a Hugging Face directory: model.safetensors, or shards and the index
// model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/safetensors.h"
#include "vm/base/write_file.h"

namespace serval {

struct PlannedTensor {
  std::string name;
  StoredType dtype;
  std::vector<int64_t> shape;

  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtype_bytes(dtype)); }
};

// Writes tensors one after the other, and holds none of them in memory. Not thread-safe.
class CheckpointWriter {
 public:
  // `tensors`: all of them, in the order in which they are written. A file has at most `file_bytes` bytes, or
  // one tensor. Each tensor's bytes must leave the next one aligned to its element. Throws Error(kUsage) if
  // that takes more than CheckpointLimits::kMaxShards files.
  CheckpointWriter(std::filesystem::path directory, std::vector<PlannedTensor> tensors, int64_t file_bytes);

  // Starts the next tensor. `dtype`: the planned type, or one with smaller elements.
  void begin_tensor(StoredType dtype);
  // The next bytes of that tensor. Throws Error(kRuntime) if they cannot be written.
  void write(std::span<const std::byte> bytes);
  // Completes the last file and writes the index. The last call.
  void finish();

  size_t files() const { return first_of_file_.size(); }
  int64_t bytes_written() const { return total_bytes_; }  // of tensors

 private:
  struct Written {
    size_t tensor;
    StoredType dtype;
    int64_t begin, end;
  };

  void plan_files(int64_t file_bytes);
  std::string file_name(size_t file) const;
  std::string header_of(std::span<const Written> tensors) const;
  void begin_file();
  void end_file();
  void write_index() const;

  const std::filesystem::path directory_;
  std::vector<PlannedTensor> tensors_;
  std::vector<size_t> first_of_file_;  // index of each file's first tensor
  size_t next_tensor_ = 0, next_file_ = 0;
  std::optional<FileWriter> file_;
  std::vector<Written> in_file_;
  size_t header_bytes_ = 0;  // reserved at the start of file_
  int64_t total_bytes_ = 0;
  std::map<std::string, std::string> file_of_;  // by tensor
};

}  // namespace serval
