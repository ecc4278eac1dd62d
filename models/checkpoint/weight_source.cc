#include "models/checkpoint/weight_source.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

#include "models/checkpoint/parallel.h"
#include "models/checkpoint/random_weights.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

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

void report(const std::string& source, const std::map<std::string_view, size_t>& tensors, const char* fate) {
  std::vector<std::string> counts;
  counts.reserve(tensors.size());
  for (const auto& [type, count] : tensors) counts.push_back(counted(count, fmt::format("{} tensor", type)));
  if (!counts.empty()) spdlog::info("{}: {} {}", source, fmt::join(counts, ", "), fate);
}

}  // namespace

int64_t WeightSource::total_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < specs_.size(); ++i)
    bytes += keeps_codes(i) ? specs_[i].bytes() : specs_[i].bytes_bf16();
  return bytes;
}

size_t WeightSource::index_of(std::string_view name) const {
  const auto found =
      std::find_if(specs_.begin(), specs_.end(), [&](const WeightSpec& spec) { return spec.name == name; });
  if (found == specs_.end())
    throw Error(ErrorKind::kUsage, fmt::format("weights: the model has no tensor {}", shown(name)));
  return static_cast<size_t>(found - specs_.begin());
}

std::string counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void report_rounded(const std::string& source, const std::map<std::string_view, size_t>& tensors) {
  report(source, tensors, "rounded to the nearest bf16");
}

void report_kept(const std::string& source, const std::map<std::string_view, size_t>& tensors) {
  report(source, tensors, "kept as stored");
}

std::unique_ptr<const WeightSource> make_random_weights(const Model& model, uint64_t seed) {
  return std::make_unique<const RandomWeights>(model, seed);
}

std::vector<WeightPiece> cut_into_pieces(const WeightSource& source) {
  constexpr int64_t kPieceElements = int64_t{1} << 20;  // work of a thread at a time: 2 MiB of bf16
  std::vector<WeightPiece> pieces;
  for (size_t tensor = 0; tensor < source.specs().size(); ++tensor) {
    if (!source.has(tensor)) continue;
    const WeightSpec& spec = source.specs()[tensor];
    const int64_t step = source.keeps_codes(tensor)
                             ? std::max<int64_t>(1, kPieceElements / spec.cols) * spec.cols
                             : kPieceElements;
    for (int64_t first = 0; first < spec.elements(); first += step)
      pieces.push_back({tensor, first, std::min(step, spec.elements() - first)});
  }
  return pieces;
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
