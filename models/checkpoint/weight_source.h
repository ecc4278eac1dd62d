// Where a model's weights come from, piece by piece: for code that brings them somewhere else than into host
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/weight_spec.h"
#include "models/model.h"

namespace serval {

// Bytes of bf16 weights that are ready, and how many there will be. Called on the loading thread, last with
// done == total. An exception from it ends the loading and goes on to the caller.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// Immutable; all functions may be called from several threads. A tensor is named by its index in specs().
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  const std::vector<WeightSpec>& specs() const { return specs_; }
  int64_t total_bytes() const;
  // Throws Error(kUsage) where the model has no tensor of that name.
  size_t index_of(std::string_view name) const;
  // For error lines: a path, or the model's name.
  virtual std::string name() const = 0;

  // Elements [first, first + out.size()) of a tensor, in bf16.
  virtual void read(size_t tensor, int64_t first, std::span<uint16_t> out) const = 0;
  // The whole tensor where it lies in memory as bf16 anyway, else null. Pages may come from a file at first
  // use; fetch() brings those of some elements in.
  virtual const uint16_t* in_place(size_t /*tensor*/) const { return nullptr; }
  virtual void fetch(size_t /*tensor*/, int64_t /*first*/, int64_t /*count*/) const {}
  // `bf16` is what read() or in_place() gave of a tensor from element `first` on. Throws Error(kRuntime) with
  // the first of them that is NaN or infinite, unless the source is allowed to hold such.
  virtual void require_finite(size_t /*tensor*/, int64_t /*first*/,
                              std::span<const uint16_t> /*bf16*/) const {}
  // The seed, where read() gives what random_weights.h defines for it.
  virtual std::optional<uint64_t> seed() const { return std::nullopt; }
  // Says on the log what read() changes, once everything is read: conversions.
  virtual void report() const {}

 protected:
  explicit WeightSource(const Model& model) : specs_(model.weights()) {}

 private:
  std::vector<WeightSpec> specs_;
};

// What becomes of weights that are NaN or infinite, or too large for bf16.
enum class NotFinite { kRefused, kLoaded };

// Opens the files and checks every name, shape and type; reads no weight. BF16 tensors are in place where the
// file aligns them, F16 and F32 are rounded to the nearest bf16. Throws Error(kRuntime) where a tensor is
// missing, of another shape than `model` asks, or of a type that is not one of the three. A tensor that the
// model has no use for is a warning.
std::unique_ptr<const WeightSource> open_checkpoint_weights(const std::filesystem::path& model_dir,
                                                            const Model& model,
                                                            NotFinite not_finite = NotFinite::kRefused);

// The weights that docs/random_weights.md defines.
std::unique_ptr<const WeightSource> make_random_weights(const Model& model, uint64_t seed);

// Says on the log how many tensors of which stored type were made bf16; nothing where there are none.
void report_rounded(const std::string& source, const std::map<std::string_view, size_t>& tensors);

// A run of elements of one tensor.
struct WeightPiece {
  size_t tensor;
  int64_t first;
  int64_t count;
};

// Runs run(piece) for all pieces, on all cores, with progress by their share of the bytes. What `run` throws
// ends it and goes on to the caller; of several exceptions, that of the first piece. Pieces should be of a
// size, or nearly.
void for_each_weight_piece(std::span<const WeightPiece> pieces,
                           const std::function<void(const WeightPiece&)>& run, int64_t total_bytes,
                           const LoadProgress& progress);

}  // namespace serval
