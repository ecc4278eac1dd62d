#include "models/checkpoint/weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

#include "models/checkpoint/json_fields.h"
#include "models/checkpoint/parallel.h"
#include "models/checkpoint/random_weights.h"
#include "vm/bf16.h"
#include "vm/error.h"

namespace serval {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;  // what a thread takes at a time: 2 MiB of bf16
constexpr int64_t kTensorAlignment = 64;              // bytes, of tensors in a buffer of ours: a cache line

int64_t padded_bytes(const WeightSpec& spec) {
  const int64_t bytes = spec.elements() * LlamaConfig::kBytesPerBf16;
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// A run of elements of one tensor.
struct Piece {
  size_t tensor;
  int64_t first;
  int64_t count;
};

std::vector<Piece> cut_into_pieces(std::span<const WeightSpec> specs) {
  std::vector<Piece> pieces;
  for (size_t tensor = 0; tensor < specs.size(); ++tensor)
    for (int64_t first = 0; first < specs[tensor].elements(); first += kPieceElements)
      pieces.push_back({tensor, first, std::min(kPieceElements, specs[tensor].elements() - first)});
  return pieces;
}

// Pieces are all of a size, or nearly: their share of the list is their share of the bytes.
void run_pieces(std::span<const Piece> pieces, const std::function<void(const Piece&)>& run,
                int64_t total_bytes, const LoadProgress& progress) {
  std::function<void(size_t)> on_done;
  if (progress)
    on_done = [&](size_t done) {
      const double share = static_cast<double>(done) / static_cast<double>(pieces.size());
      progress(done == pieces.size() ? total_bytes
                                     : static_cast<int64_t>(share * static_cast<double>(total_bytes)),
               total_bytes);
    };
  for_each_piece(
      pieces.size(), [&](size_t piece) { run(pieces[piece]); }, on_done);
}

template <typename Source, typename ToFloat>
void convert_elements(std::span<const std::byte> source, uint16_t* out, ToFloat to_float) {
  for (size_t i = 0; i < source.size() / sizeof(Source); ++i) {
    Source element;
    std::memcpy(&element, source.data() + i * sizeof(Source), sizeof element);  // of any alignment
    out[i] = float_to_bf16(to_float(element));
  }
}

// One tensor of a checkpoint on its way to bf16; `converted` is null where it is used in place.
struct LoadedTensor {
  const TensorView* view;
  uint16_t* converted;

  void load(const Piece& piece) const {
    const auto element_bytes = static_cast<int64_t>(dtype_bytes(view->dtype));
    const auto source = view->bytes.subspan(piece.first * element_bytes, piece.count * element_bytes);
    if (converted == nullptr) return read_in(source);
    uint16_t* out = converted + piece.first;
    if (view->dtype == StoredType::kBF16) std::memcpy(out, source.data(), source.size());
    if (view->dtype == StoredType::kF16) convert_elements<uint16_t>(source, out, fp16_to_float);
    if (view->dtype == StoredType::kF32)
      convert_elements<float>(source, out, [](float value) { return value; });
  }
};

bool usable_in_place(const TensorView& tensor) {
  return tensor.dtype == StoredType::kBF16 &&
         reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignof(uint16_t) == 0;
}

const TensorView& checked_tensor(const Checkpoint& checkpoint, const WeightSpec& spec) {
  std::vector<int64_t> expected = {spec.rows, spec.cols};
  if (spec.kind == WeightKind::kNorm) expected.erase(expected.begin());
  const auto fail = [&](const std::string& path, const std::string& found) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: tensor {}: {}, expected shape {} by config.json", path,
                                                 shown(spec.name), found, shape_text(expected)));
  };
  if (!checkpoint.contains(spec.name)) fail(checkpoint.source(), "missing");
  const TensorView& tensor = checkpoint.tensor(spec.name);
  if (tensor.shape != expected)
    fail(checkpoint.path_of(spec.name), "found shape " + shape_text(tensor.shape));
  if (tensor.dtype != StoredType::kBF16 && tensor.dtype != StoredType::kF16 &&
      tensor.dtype != StoredType::kF32)
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: tensor {}: found dtype {}, supported are BF16, F16 and F32",
                            checkpoint.path_of(spec.name), shown(spec.name), dtype_name(tensor.dtype)));
  return tensor;
}

void warn_of_unused(const Checkpoint& checkpoint, std::span<const WeightSpec> specs) {
  constexpr size_t kMaxListed = 3;
  std::set<std::string, std::less<>> known = {kLmHeadName};  // some files repeat the tied embedding
  for (const WeightSpec& spec : specs) known.insert(spec.name);
  std::vector<std::string> unused;
  for (const std::string& name : checkpoint.names())
    if (!known.contains(name) && !name.ends_with(".rotary_emb.inv_freq")) unused.push_back(shown(name));
  if (unused.empty()) return;
  const size_t count = unused.size();
  unused.resize(std::min(count, kMaxListed));
  spdlog::warn("{}: {} tensors that the model does not use: {}{}", checkpoint.source(), count,
               fmt::join(unused, ", "), count > kMaxListed ? ", ..." : "");
}

void report_conversions(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors) {
  std::map<std::string_view, size_t> converted;
  for (const LoadedTensor& tensor : tensors)
    if (tensor.view->dtype != StoredType::kBF16) ++converted[dtype_name(tensor.view->dtype)];
  std::vector<std::string> counts;
  counts.reserve(converted.size());
  for (const auto& [dtype, count] : converted) counts.push_back(fmt::format("{} {}", count, dtype));
  if (!counts.empty())
    spdlog::info("{}: {} tensors rounded to the nearest bf16", checkpoint.source(),
                 fmt::join(counts, " and "));
}

}  // namespace

ModelWeights ModelWeights::load(const std::filesystem::path& model_dir, const LlamaConfig& config,
                                const LoadProgress& progress) {
  ModelWeights weights;
  weights.checkpoint_ = std::make_unique<const Checkpoint>(Checkpoint::open(model_dir));
  const Checkpoint& checkpoint = *weights.checkpoint_;
  const std::vector<WeightSpec> specs = weight_specs(config);
  std::vector<LoadedTensor> tensors;
  int64_t converted_bytes = 0;
  for (const WeightSpec& spec : specs) {
    tensors.push_back({&checked_tensor(checkpoint, spec), nullptr});
    if (!usable_in_place(*tensors.back().view)) converted_bytes += padded_bytes(spec);
  }
  warn_of_unused(checkpoint, specs);

  const HostBuffer& buffer = weights.buffers_.emplace_back(static_cast<size_t>(converted_bytes),
                                                           checkpoint.source() + ": conversion to bf16");
  int64_t offset = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (usable_in_place(*tensors[i].view)) {
      weights.add(specs[i], reinterpret_cast<const uint16_t*>(tensors[i].view->bytes.data()));
      continue;
    }
    tensors[i].converted = buffer.bf16(offset);
    weights.add(specs[i], tensors[i].converted);
    offset += padded_bytes(specs[i]);
  }
  const auto load_piece = [&](const Piece& piece) { tensors[piece.tensor].load(piece); };
  run_pieces(cut_into_pieces(specs), load_piece, config.weight_bytes_bf16(), progress);
  report_conversions(checkpoint, tensors);
  weights.tie_lm_head(config);
  return weights;
}

ModelWeights ModelWeights::random(const LlamaConfig& config, uint64_t seed, const LoadProgress& progress) {
  ModelWeights weights;
  const std::vector<WeightSpec> specs = weight_specs(config);
  int64_t total_bytes = 0;
  for (const WeightSpec& spec : specs) total_bytes += padded_bytes(spec);
  const HostBuffer& buffer =
      weights.buffers_.emplace_back(static_cast<size_t>(total_bytes), config.name + ": random weights");
  std::vector<uint16_t*> tensors;
  int64_t offset = 0;
  for (const WeightSpec& spec : specs) {
    tensors.push_back(buffer.bf16(offset));
    weights.add(spec, tensors.back());
    offset += padded_bytes(spec);
  }
  const auto fill_piece = [&](const Piece& piece) {
    const WeightSpec& spec = specs[piece.tensor];
    const std::span out(tensors[piece.tensor] + piece.first, static_cast<size_t>(piece.count));
    const uint64_t key = random_tensor_key(spec.name, seed);
    if (spec.kind == WeightKind::kNorm) return fill_random_norm(out, key, piece.first);
    fill_random_matrix(out, key, piece.first, random_matrix_scale(spec.cols));
  };
  run_pieces(cut_into_pieces(specs), fill_piece, config.weight_bytes_bf16(), progress);
  weights.tie_lm_head(config);
  return weights;
}

Matrix ModelWeights::matrix(std::string_view name) const {
  const auto found = matrices_.find(name);
  if (found == matrices_.end())
    throw Error(ErrorKind::kUsage, fmt::format("weights: the model has no tensor {}", shown(name)));
  return found->second;
}

void ModelWeights::add(const WeightSpec& spec, const uint16_t* bf16) {
  matrices_.emplace(spec.name, Matrix{bf16, spec.rows, spec.cols});
}

void ModelWeights::tie_lm_head(const LlamaConfig& config) {
  if (config.tie_word_embeddings) matrices_.emplace(kLmHeadName, matrix(kEmbeddingName));
}

}  // namespace serval
