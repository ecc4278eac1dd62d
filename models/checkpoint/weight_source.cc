#include "models/checkpoint/weight_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/parallel.h"
#include "models/checkpoint/random_weights.h"
#include "models/checkpoint/stored_elements.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

// A tied weight may be stored only under its alias.
const std::string& stored_name(const Checkpoint& checkpoint, const WeightSpec& spec) {
  const bool use_alias =
      !checkpoint.contains(spec.name) && !spec.alias.empty() && checkpoint.contains(spec.alias);
  return use_alias ? spec.alias : spec.name;
}

const TensorView& checked_tensor(const Checkpoint& checkpoint, const WeightSpec& spec) {
  const std::string& name = stored_name(checkpoint, spec);
  std::vector<int64_t> expected = {spec.rows, spec.cols};
  if (spec.kind != WeightKind::kMatrix) expected.erase(expected.begin());
  const auto fail = [&](const std::string& path, const std::string& found) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: tensor {}: {}, expected shape {} by config.json", path,
                                                 shown(name), found, shape_text(expected)));
  };
  if (!checkpoint.contains(name)) fail(checkpoint.source(), "missing");
  const TensorView& tensor = checkpoint.tensor(name);
  if (tensor.shape != expected) fail(checkpoint.path_of(name), "found shape " + shape_text(tensor.shape));
  if (tensor.dtype != StoredType::kBF16 && tensor.dtype != StoredType::kF16 &&
      tensor.dtype != StoredType::kF32)
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: tensor {}: found dtype {}; supported: BF16, F16 and F32",
                            checkpoint.path_of(name), shown(name), dtype_name(tensor.dtype)));
  return tensor;
}

// "1 tensor" or "2 tensors".
std::string counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void warn_of_unused(const Checkpoint& checkpoint, std::span<const WeightSpec> specs) {
  constexpr size_t kMaxListed = 3;
  std::set<std::string, std::less<>> known;
  for (const WeightSpec& spec : specs) {
    known.insert(spec.name);
    if (!spec.alias.empty()) known.insert(spec.alias);
  }
  std::vector<std::string> unused;
  for (const std::string& name : checkpoint.names())
    if (!known.contains(name) && !name.ends_with(".rotary_emb.inv_freq")) unused.push_back(shown(name));
  if (unused.empty()) return;
  const size_t count = unused.size();
  unused.resize(std::min(count, kMaxListed));
  spdlog::warn("{}: {} that the model does not use: {}{}", checkpoint.source(), counted(count, "tensor"),
               fmt::join(unused, ", "), count > kMaxListed ? ", ..." : "");
}

class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const std::filesystem::path& model_dir, const Model& model, NotFinite not_finite)
      : WeightSource(model), checkpoint_(Checkpoint::open(model_dir)), not_finite_(not_finite) {
    for (const WeightSpec& spec : specs()) tensors_.push_back(&checked_tensor(checkpoint_, spec));
    warn_of_unused(checkpoint_, specs());
  }

  std::string name() const override { return checkpoint_.source(); }

  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    read_stored_elements(*tensors_[tensor], first, out);
  }

  const uint16_t* in_place(size_t tensor) const override {
    const TensorView& view = *tensors_[tensor];
    const bool usable = view.dtype == StoredType::kBF16 &&
                        reinterpret_cast<uintptr_t>(view.bytes.data()) % alignof(uint16_t) == 0;
    return usable ? reinterpret_cast<const uint16_t*>(view.bytes.data()) : nullptr;
  }

  void fetch(size_t tensor, int64_t first, int64_t count) const override {
    populate_pages(bytes(tensor, first, count));
  }

  void require_finite(size_t tensor, int64_t first, std::span<const uint16_t> bf16) const override {
    if (not_finite_ == NotFinite::kLoaded) return;
    const size_t index = first_not_finite(bf16);
    if (index < bf16.size()) refuse(tensor, first + static_cast<int64_t>(index), bf16[index]);
  }

  void report() const override {
    std::map<std::string_view, size_t> converted;
    for (const TensorView* tensor : tensors_)
      if (tensor->dtype != StoredType::kBF16) ++converted[dtype_name(tensor->dtype)];
    report_rounded(checkpoint_.source(), converted);
  }

 private:
  std::span<const std::byte> bytes(size_t tensor, int64_t first, int64_t count) const {
    const auto element_bytes = static_cast<int64_t>(dtype_bytes(tensors_[tensor]->dtype));
    return tensors_[tensor]->bytes.subspan(static_cast<size_t>(first * element_bytes),
                                           static_cast<size_t>(count * element_bytes));
  }

  [[noreturn]] void refuse(size_t tensor, int64_t index, uint16_t bf16) const {
    const TensorView& view = *tensors_[tensor];
    float stored = bf16_to_float(bf16);
    if (view.dtype == StoredType::kF32) std::memcpy(&stored, bytes(tensor, index, 1).data(), sizeof stored);
    refuse_not_finite(fmt::format("{}: tensor {}", checkpoint_.path_of(view.name), shown(view.name)),
                      specs()[tensor], index, stored);
  }

  const Checkpoint checkpoint_;
  const NotFinite not_finite_;
  std::vector<const TensorView*> tensors_;  // in order of specs(), into checkpoint_
};

class RandomWeights final : public WeightSource {
 public:
  RandomWeights(const Model& model, uint64_t seed)
      : WeightSource(model), name_(model.name + ": random weights"), seed_(seed) {}

  std::string name() const override { return name_; }
  std::optional<uint64_t> seed() const override { return seed_; }

  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    const WeightSpec& spec = specs()[tensor];
    const uint64_t key = random_tensor_key(spec.name, seed_);
    const auto index = static_cast<uint64_t>(first);
    if (spec.kind == WeightKind::kNorm) return fill_random_norm(out, key, index);
    fill_random_matrix(out, key, index, random_matrix_scale(spec.cols));
  }

 private:
  const std::string name_;
  const uint64_t seed_;
};

}  // namespace

int64_t WeightSource::total_bytes() const {
  return std::accumulate(specs_.begin(), specs_.end(), int64_t{0},
                         [](int64_t sum, const WeightSpec& spec) { return sum + spec.bytes(); });
}

size_t WeightSource::index_of(std::string_view name) const {
  const auto found =
      std::find_if(specs_.begin(), specs_.end(), [&](const WeightSpec& spec) { return spec.name == name; });
  if (found == specs_.end())
    throw Error(ErrorKind::kUsage, fmt::format("weights: the model has no tensor {}", shown(name)));
  return static_cast<size_t>(found - specs_.begin());
}

void report_rounded(const std::string& source, const std::map<std::string_view, size_t>& tensors) {
  std::vector<std::string> counts;
  counts.reserve(tensors.size());
  for (const auto& [type, count] : tensors) counts.push_back(counted(count, fmt::format("{} tensor", type)));
  if (!counts.empty()) spdlog::info("{}: {} rounded to the nearest bf16", source, fmt::join(counts, ", "));
}

std::unique_ptr<const WeightSource> open_checkpoint_weights(const std::filesystem::path& model_dir,
                                                            const Model& model, NotFinite not_finite) {
  return std::make_unique<const CheckpointWeights>(model_dir, model, not_finite);
}

std::unique_ptr<const WeightSource> make_random_weights(const Model& model, uint64_t seed) {
  return std::make_unique<const RandomWeights>(model, seed);
}

void for_each_weight_piece(std::span<const WeightPiece> pieces,
                           const std::function<void(const WeightPiece&)>& run, int64_t total_bytes,
                           const LoadProgress& progress) {
  std::exception_ptr failure;
  std::mutex failure_mutex;
  std::atomic<size_t> failed = pieces.size();  // lowest index of a piece that failed
  const auto guarded = [&](size_t piece) {
    if (piece > failed) return;
    try {
      run(pieces[piece]);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (piece > failed) return;
      failed = piece;
      failure = std::current_exception();
    }
  };
  const auto report = [&](size_t done) {
    if (!progress || failed < pieces.size()) return;
    const double share = static_cast<double>(done) / static_cast<double>(pieces.size());
    progress(
        done == pieces.size() ? total_bytes : static_cast<int64_t>(share * static_cast<double>(total_bytes)),
        total_bytes);
  };
  for_each_piece(pieces.size(), guarded, report);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace serval
