#include "models/quantise_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/checkpoint_writer.h"
#include "models/checkpoint/mapped_file.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/checkpoint/quantised/compressed_tensors_writer.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/text_file.h"
#include "vm/base/write_directory.h"
#include "vm/base/write_file.h"

namespace serval {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kConfigFile = "config.json";
constexpr int64_t kPieceElements = int64_t{1} << 20;  // work of a thread at a time

// Files that are not copied: weights in any format, and what is said about these.
constexpr std::array kWeightExtensions = {".safetensors", ".bin", ".pt",      ".pth",  ".ckpt",
                                          ".gguf",        ".h5",  ".msgpack", ".onnx", ".npz"};
constexpr std::array kLeftOut = {kConfigFile, "hf_quant_config.json", "quantize_config.json",
                                 "quant_config.json"};

bool is_copied(const fs::path& file) {
  const std::string name = file.filename().string(), extension = file.extension().string();
  return !name.starts_with('.') && !name.ends_with(".index.json") &&
         std::ranges::find(kWeightExtensions, extension) == kWeightExtensions.end() &&
         std::ranges::find(kLeftOut, name) == kLeftOut.end();
}

// Paths relative to the directory, of files that links lead to, too.
std::vector<fs::path> files_to_copy(const fs::path& directory) {
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(directory); entry != fs::recursive_directory_iterator();
       ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (entry->is_regular_file() && is_copied(entry->path()))
      found.push_back(entry->path().lexically_relative(directory));
  }
  return found;
}

void copy_whole_file(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::create_directories(to.parent_path(), ignored);  // writing the file reports it
  FileWriter file(to);
  file.write_values(MappedFile(from).bytes());
  file.commit();
}

std::string quantised_config(const fs::path& path, const Model& model) {
  ordered_json config = ordered_json::parse(read_text_file(path, ConfigLimits::kMaxFileBytes), nullptr,
                                            /*allow_exceptions=*/false);
  if (!config.is_object())
    throw Error(ErrorKind::kRuntime, path.string() + ": has numbers such as Infinity, which JSON lacks");
  config.erase("compression_config");
  for (const char* key : {"torch_dtype", "dtype"})
    if (config.contains(key)) config[key] = "bfloat16";  // of the tensors that stay
  // A head in codes is stored beside the embedding, which keeps its type.
  const bool tied = model.tie_word_embeddings && !has_codes(model.formats.lm_head);
  config["tie_word_embeddings"] = tied;
  config["quantization_config"] = compressed_tensors_config(model.formats);
  constexpr int kIndent = 2;
  return config.dump(kIndent) + '\n';
}

std::vector<PlannedTensor> planned_tensors(const Model& model) {
  std::vector<PlannedTensor> all;
  for (const WeightSpec& spec : model.weights()) {
    if (has_codes(spec.dtype)) {
      std::ranges::move(compressed_tensors_of(spec), std::back_inserter(all));
      continue;
    }
    std::vector<int64_t> shape = {spec.rows, spec.cols};
    if (spec.kind != WeightKind::kMatrix) shape.erase(shape.begin());
    all.push_back({spec.name, StoredType::kBF16, std::move(shape)});
  }
  return all;
}

// Writes the weights of a source, one tensor after the other.
class WeightsWriter {
 public:
  WeightsWriter(const WeightSource& source, CheckpointWriter& writer, const LoadProgress& progress)
      : source_(source), writer_(writer), progress_(progress) {}

  void write(const Model& model) {
    const std::vector<WeightSpec> specs = model.weights();
    for (const WeightSpec& spec : specs) total_ += spec.bytes_bf16();
    for (const WeightSpec& spec : specs) {
      const size_t tensor = source_.index_of(spec.source_name());
      if (has_codes(spec.dtype)) {
        write_codes(spec, tensor);
      } else {
        write_bf16(spec, tensor);
      }
      done_ += spec.bytes_bf16();
    }
    writer_.finish();
    source_.report();
  }

 private:
  // Reads elements that are finite, or allowed not to be.
  void read(size_t tensor, int64_t first, std::span<uint16_t> to) const {
    source_.read(tensor, first, to);
    source_.require_finite(tensor, first, to);
  }

  void write_bf16(const WeightSpec& spec, size_t tensor) {
    writer_.begin_tensor(StoredType::kBF16);
    std::vector<uint16_t> piece;
    for (int64_t first = 0; first < spec.elements(); first += kPieceElements) {
      piece.resize(static_cast<size_t>(std::min(kPieceElements, spec.elements() - first)));
      read(tensor, first, piece);
      writer_.write(std::as_bytes(std::span(piece)));
      report(first * static_cast<int64_t>(sizeof(uint16_t)));
    }
  }

  void write_codes(const WeightSpec& spec, size_t tensor) {
    const bool kept = spec.copy_of.empty() && source_.keeps_codes(tensor);
    CompressedMatrix matrix(spec, fmt::format("{}: tensor {}", source_.name(), shown(spec.name)));
    const int64_t step = std::max<int64_t>(1, kPieceElements / spec.cols / CompressedMatrix::kRowStep) *
                         CompressedMatrix::kRowStep;
    std::vector<WeightPiece> pieces;
    for (int64_t row = 0; row < spec.rows; row += step)
      pieces.push_back({tensor, row * spec.cols, std::min(step, spec.rows - row) * spec.cols});
    const auto convert = [&](const WeightPiece& piece) {
      const int64_t first_row = piece.first / spec.cols, rows = piece.count / spec.cols;
      std::vector<uint8_t> codes(static_cast<size_t>(rows * spec.row_bytes()));
      if (kept) {
        source_.read_codes(tensor, first_row, rows, codes.data());
      } else {
        std::vector<uint16_t> bf16(static_cast<size_t>(piece.count));
        read(tensor, piece.first, bf16);
        quantise_rows(spec.dtype, bf16.data(), rows, spec.cols, codes.data());
      }
      matrix.set_rows(first_row, rows, codes.data());
    };
    for_each_weight_piece(pieces, convert, spec.bytes_bf16(), [&](int64_t done, int64_t) { report(done); });
    for (const CompressedMatrix::Tensor& part : matrix.tensors()) {
      writer_.begin_tensor(part.dtype);
      writer_.write(part.bytes);
    }
  }

  // `done`: bytes of the current weight, as in bf16.
  void report(int64_t done) const {
    if (progress_) progress_(done_ + done, total_);
  }

  const WeightSource& source_;
  CheckpointWriter& writer_;
  const LoadProgress& progress_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

QuantisedFiles quantise_model(const fs::path& from, const Model& model, const WeightSource& weights,
                              const fs::path& target, const QuantiseOptions& options) {
  if (model.formats.all_bf16()) throw Error(ErrorKind::kUsage, "weights: bf16 quantises nothing");
  std::error_code ignored;
  if (!fs::is_directory(from, ignored))
    throw Error(ErrorKind::kRuntime,
                from.string() + ": not a directory; only a Hugging Face directory can be quantised");
  const std::vector<fs::path> others = files_to_copy(from);
  DirectoryWriter directory(target);
  write_file(directory.path() / kConfigFile, quantised_config(from / kConfigFile, model));
  for (const fs::path& file : others) copy_whole_file(from / file, directory.path() / file);
  CheckpointWriter writer(directory.path(), planned_tensors(model), options.shard_bytes);
  WeightsWriter(weights, writer, options.progress).write(model);
  directory.commit();
  return {.path = target, .bytes = writer.bytes_written(), .files = writer.files()};
}

}  // namespace serval
