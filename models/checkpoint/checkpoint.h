// The tensors of a Hugging Face model directory: model.safetensors, or the shards that
// model.safetensors.index.json lists.
//
// Every function that reads throws Error(kRuntime) with one line that names the file and the tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/safetensors.h"

namespace serval {

struct CheckpointLimits {
  static constexpr size_t kMaxIndexBytes = 100'000'000;
  static constexpr size_t kMaxShards = 4096;
};

// Tensor name → shard's file name, from the text of an index. A shard's name is checked to be a plain file
// name.
std::map<std::string, std::string> parse_index(std::string_view json_text, const std::string& source);

// Immutable; all const functions may be called from several threads. Views stay valid, moves included, until
// it is destroyed.
class Checkpoint {
 public:
  // model.safetensors where it exists, else the index.
  static Checkpoint open(const std::filesystem::path& model_dir);

  bool contains(std::string_view name) const { return entries_.contains(name); }
  // Throws where there is no tensor of that name.
  const TensorView& tensor(std::string_view name) const;
  // The file that holds it.
  const std::string& path_of(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted
  // model.safetensors or the index, with its path.
  const std::string& source() const { return source_; }

 private:
  struct Entry {
    const TensorView* tensor;  // into a file's map
    size_t file;
  };
  explicit Checkpoint(std::string source) : source_(std::move(source)) {}
  void add_single_file();
  void add_shards();
  const Entry& entry(std::string_view name) const;

  std::string source_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace serval
