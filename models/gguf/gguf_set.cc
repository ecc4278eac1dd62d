#include "models/gguf/gguf_set.h"

#include "fmt/format.h"

namespace serval {
namespace {

constexpr int64_t kMaxFiles = 4096;
constexpr const char* kCountKey = "split.count";
constexpr const char* kNumberKey = "split.no";
constexpr const char* kTensorsKey = "split.tensors.count";

std::string file_name(const std::string& stem, int64_t number, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, number + 1, count);
}

// The part of the file's name before "-00001-of-00003.gguf".
std::string stem_of(const GgufFile& file, int64_t number, int64_t count) {
  const std::string name = std::filesystem::path(file.path()).filename().string();
  const std::string ending = file_name("", number, count);
  if (name.size() > ending.size() && name.ends_with(ending))
    return name.substr(0, name.size() - ending.size());
  file.fields().fail(kCountKey,
                     fmt::format("file {} of {}; its name must end in {}", number + 1, count, ending));
}

}  // namespace

GgufSet::GgufSet(const std::filesystem::path& first) {
  files_.emplace_back(first);
  const GgufFields& fields = files_.front().fields();
  const int64_t count = fields.find_integer(kCountKey, 0, kMaxFiles).value_or(1);
  if (count > 1) {
    const int64_t number = fields.integer(kNumberKey, 0, count - 1);
    const std::string stem = stem_of(files_.front(), number, count);
    if (number != 0) {
      fields.fail(kNumberKey, fmt::format("this is file {} of a split model; give the first, {}", number + 1,
                                          file_name(stem, 0, count)));
    }
    for (int64_t next = 1; next < count; ++next)
      add(first.parent_path() / file_name(stem, next, count), next, count);
  }
  for (size_t file = 0; file < files_.size(); ++file) {
    for (const auto& [name, tensor] : files_[file].tensors()) {
      if (!entries_.emplace(name, Entry{&tensor, file}).second)
        files_[file].fields().fail(name, "another file of the set also has this tensor");
    }
  }
  const auto tensors = fields.find_integer(kTensorsKey, 0, INT32_MAX);
  if (count > 1 && tensors && static_cast<size_t>(*tensors) != entries_.size())
    fields.fail(kTensorsKey, fmt::format("{}, but the files have {}", *tensors, entries_.size()));
}

void GgufSet::add(const std::filesystem::path& path, int64_t number, int64_t count) {
  const GgufFields& fields = files_.emplace_back(path).fields();
  fields.integer(kCountKey, count, count);
  fields.integer(kNumberKey, number, number);
}

const GgufTensor* GgufSet::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.tensor;
}

std::vector<const GgufTensor*> GgufSet::tensors() const {
  std::vector<const GgufTensor*> all;
  for (const auto& [name, entry] : entries_) all.push_back(entry.tensor);
  return all;
}

const std::string& GgufSet::path_of(const GgufTensor& tensor) const {
  return files_[entries_.at(tensor.name).file].path();
}

}  // namespace serval
