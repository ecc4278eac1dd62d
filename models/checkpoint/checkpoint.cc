#include "models/checkpoint/checkpoint.h"

#include <system_error>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// Keeps an index from naming files outside its directory.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

bool file_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

std::map<std::string, std::string> parse_index(std::string_view json_text, const std::string& source) {
  const json document = parse_json_text(json_text, source);
  const json* weight_map = JsonFields(document, source).find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object())
    throw Error(ErrorKind::kRuntime, fmt::format("{}: weight_map: missing, or not an object", source));
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>()))
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: weight_map: {}: found {}, expected a file name without folders", source,
                              shown(tensor), shown(shard)));
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

Checkpoint Checkpoint::open(const std::filesystem::path& model_dir) {
  const bool single = file_exists(model_dir / kSingleFile);
  if (!single && !file_exists(model_dir / kIndexFile))
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: found neither {} nor {}", model_dir.string(), kSingleFile, kIndexFile));
  Checkpoint checkpoint((model_dir / (single ? kSingleFile : kIndexFile)).string());
  if (single) {
    checkpoint.add_single_file();
  } else {
    checkpoint.add_shards();
  }
  return checkpoint;
}

void Checkpoint::add_single_file() {
  files_.emplace_back(source_);
  for (const auto& [name, tensor] : files_.back().tensors()) entries_.emplace(name, Entry{&tensor, 0});
}

void Checkpoint::add_shards() {
  const auto shard_of = parse_index(read_text_file(source_, CheckpointLimits::kMaxIndexBytes), source_);
  std::map<std::string, size_t> file_of;
  for (const auto& [name, shard] : shard_of) file_of.emplace(shard, 0);
  if (file_of.size() > CheckpointLimits::kMaxShards)
    throw Error(ErrorKind::kRuntime, fmt::format("{}: weight_map: names {} files; limit: {}", source_,
                                                 file_of.size(), CheckpointLimits::kMaxShards));
  const std::filesystem::path dir = std::filesystem::path(source_).parent_path();
  for (auto& [shard, file] : file_of) {
    file = files_.size();
    files_.emplace_back(dir / shard);
  }
  for (const auto& [name, shard] : shard_of) {
    const size_t file = file_of.at(shard);
    const auto found = files_[file].tensors().find(name);
    if (found == files_[file].tensors().end())
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: tensor {}: missing, although {} lists it in this file",
                              files_[file].path(), shown(name), kIndexFile));
    entries_.emplace(name, Entry{&found->second, file});
  }
}

const Checkpoint::Entry& Checkpoint::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(ErrorKind::kRuntime, fmt::format("{}: tensor {}: missing", source_, shown(name)));
  return found->second;
}

const TensorView& Checkpoint::tensor(std::string_view name) const {
  return *entry(name).tensor;
}

const std::string& Checkpoint::path_of(std::string_view name) const {
  return files_[entry(name).file].path();
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace serval
