#include "models/checkpoint/checkpoint_writer.h"

#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/checkpoint.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kLengthBytes = sizeof(uint64_t);  // of the header's length
constexpr size_t kHeaderAlignment = 8;              // bytes: that of the largest element

ordered_json entry_of(const PlannedTensor& tensor, StoredType dtype, int64_t begin, int64_t end) {
  return {{"dtype", dtype_name(dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
}

// Text of one entry, with the comma after it.
size_t entry_bytes(const PlannedTensor& tensor, int64_t begin) {
  const ordered_json entry = {{tensor.name, entry_of(tensor, tensor.dtype, begin, begin + tensor.bytes())}};
  return entry.dump().size();
}

}  // namespace

int64_t PlannedTensor::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

CheckpointWriter::CheckpointWriter(std::filesystem::path directory, std::vector<PlannedTensor> tensors,
                                   int64_t file_bytes)
    : directory_(std::move(directory)), tensors_(std::move(tensors)) {
  plan_files(file_bytes);
  if (files() > CheckpointLimits::kMaxShards)
    throw Error(ErrorKind::kUsage, fmt::format("shard_size: {} bytes make {} files; limit: {}", file_bytes,
                                               files(), CheckpointLimits::kMaxShards));
}

void CheckpointWriter::plan_files(int64_t file_bytes) {
  const auto empty_header = static_cast<int64_t>(header_of({}).size() + kHeaderAlignment);
  int64_t header = 0, data = 0;
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const int64_t bytes = tensors_[tensor].bytes();
    auto entry = static_cast<int64_t>(entry_bytes(tensors_[tensor], data));
    if (tensor == 0 || kLengthBytes + header + entry + data + bytes > file_bytes) {
      first_of_file_.push_back(tensor);
      header = empty_header;
      data = 0;
      entry = static_cast<int64_t>(entry_bytes(tensors_[tensor], data));
    }
    header += entry;
    data += bytes;
  }
}

std::string CheckpointWriter::file_name(size_t file) const {
  if (files() == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files());
}

// Padded to a multiple of kHeaderAlignment.
std::string CheckpointWriter::header_of(std::span<const Written> tensors) const {
  ordered_json header = {{"__metadata__", {{"format", "pt"}}}};  // transformers asks for it
  for (const Written& each : tensors) {
    const PlannedTensor& tensor = tensors_[each.tensor];
    header[tensor.name] = entry_of(tensor, each.dtype, each.begin, each.end);
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

// Reserves the header of the planned types, which is the longest: smaller elements make smaller offsets.
void CheckpointWriter::begin_file() {
  const size_t file = next_file_++;
  const size_t end = next_file_ < files() ? first_of_file_[next_file_] : tensors_.size();
  std::vector<Written> planned;
  int64_t offset = 0;
  for (size_t tensor = first_of_file_[file]; tensor < end; ++tensor) {
    const int64_t bytes = tensors_[tensor].bytes();
    planned.push_back({tensor, tensors_[tensor].dtype, offset, offset + bytes});
    offset += bytes;
  }
  header_bytes_ = header_of(planned).size();
  file_.emplace(directory_ / file_name(file));
  file_->write(std::string(kLengthBytes + header_bytes_, ' '));
  in_file_.clear();
}

void CheckpointWriter::end_file() {
  std::string header = header_of(in_file_);
  header.resize(header_bytes_, ' ');
  const auto length = static_cast<uint64_t>(header_bytes_);
  char bytes[kLengthBytes];
  std::memcpy(bytes, &length, sizeof bytes);
  file_->overwrite(0, {bytes, sizeof bytes});
  file_->overwrite(kLengthBytes, header);
  file_->commit();
  file_.reset();
}

void CheckpointWriter::begin_tensor(StoredType dtype) {
  if (next_file_ < files() && first_of_file_[next_file_] == next_tensor_) {
    if (file_) end_file();
    begin_file();
  }
  const int64_t begin = in_file_.empty() ? 0 : in_file_.back().end;
  in_file_.push_back({next_tensor_, dtype, begin, begin});
  file_of_.emplace(tensors_[next_tensor_].name, file_name(next_file_ - 1));
  ++next_tensor_;
}

void CheckpointWriter::write(std::span<const std::byte> bytes) {
  file_->write_values(bytes);
  in_file_.back().end += static_cast<int64_t>(bytes.size());
  total_bytes_ += static_cast<int64_t>(bytes.size());
}

void CheckpointWriter::finish() {
  if (file_) end_file();
  if (files() > 1) write_index();
}

void CheckpointWriter::write_index() const {
  constexpr int kIndent = 2;
  const ordered_json index = {{"metadata", {{"total_size", total_bytes_}}}, {"weight_map", file_of_}};
  write_file(directory_ / "model.safetensors.index.json", index.dump(kIndent) + "\n");
}

}  // namespace serval
