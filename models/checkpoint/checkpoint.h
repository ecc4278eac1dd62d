// The tensors of a Hugging Face model directory: model.safetensors, or the shards that
// model.safetensors.index.json lists.
//
// Functions that read files throw Error(kRuntime) with one line that names the file and the tensor.
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

// Reads an index: tensor name → file name of its shard. Refuses file names that contain folders.
std::map<std::string, std::string> parse_index(std::string_view json_text, const std::string& source);

// Immutable and thread-safe. Views stay valid until the checkpoint is destroyed; moving it keeps them valid.
class Checkpoint {
 public:
  // Opens model.safetensors, or the index if that file does not exist.
  static Checkpoint open(const std::filesystem::path& model_dir);

  bool contains(std::string_view name) const { return entries_.contains(name); }
  // Throws if there is no tensor of that name.
  const TensorView& tensor(std::string_view name) const;
  // Path of the file that holds the tensor.
  const std::string& path_of(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted
  // Path of model.safetensors or of the index.
  const std::string& source() const { return source_; }

 private:
  struct Entry {
    const TensorView* tensor;  // in files_[file].tensors()
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
