// Reads a model's weights piece by piece, so that callers can copy them to a device without a copy of the
// whole model in host memory.
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

// Called on the loading thread with the bytes of weights loaded so far and in total; the last call has
// done == total. If it throws, loading stops and the exception is rethrown.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// Immutable and thread-safe. `tensor` is an index into specs().
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  const std::vector<WeightSpec>& specs() const { return specs_; }
  // The size of all tensors in memory: those that are kept in codes, and the others in bf16.
  int64_t total_bytes() const;
  // Throws Error(kUsage) if the model has no tensor of that name.
  size_t index_of(std::string_view name) const;
  // A path, or the model's name; for error lines.
  virtual std::string name() const = 0;
  // False for a weight that the source does not give: some only replace a part of a model's weights.
  virtual bool has(size_t /*tensor*/) const { return true; }

  // Writes elements [first, first + out.size()) of a tensor in bf16.
  virtual void read(size_t tensor, int64_t first, std::span<uint16_t> out) const = 0;
  // The whole tensor if it is in memory or in a mapped file as aligned bf16, else null. fetch() loads the
  // pages of some elements of a mapped file.
  virtual const uint16_t* in_place(size_t /*tensor*/) const { return nullptr; }
  virtual void fetch(size_t /*tensor*/, int64_t /*first*/, int64_t /*count*/) const {}
  // `bf16` holds elements from `first` on, as returned by read() or in_place(). Throws Error(kRuntime) for
  // the first element that is NaN or infinite, unless the source allows these.
  virtual void require_finite(size_t /*tensor*/, int64_t /*first*/,
                              std::span<const uint16_t> /*bf16*/) const {}
  // True for a matrix that the model has in codes (has_codes()) and that is stored in such codes and scales:
  // read_codes() gives it without rounding. read() gives its values in bf16, as of any tensor.
  virtual bool keeps_codes(size_t /*tensor*/) const { return false; }
  // Writes whole rows as they are stored, in the layout of vm/layout/weight_rows.h. Throws Error(kRuntime)
  // for the first code that is NaN, and for a scale or minimum that is NaN or infinite, unless the source
  // allows these; and for one that the type cannot hold. Requires keeps_codes().
  virtual void read_codes(size_t /*tensor*/, int64_t /*first_row*/, int64_t /*row_count*/,
                          uint8_t* /*to*/) const {}
  // Seed of random weights (random_weights.h); nullopt for weights from files.
  virtual std::optional<uint64_t> seed() const { return std::nullopt; }
  // Logs which types were converted to bf16, and which kept. Call it after everything has been read.
  virtual void report() const {}

 protected:
  explicit WeightSource(const Model& model) : specs_(model.weights()) {
    std::erase_if(specs_, [](const WeightSpec& spec) { return !spec.copy_of.empty(); });
  }

 private:
  std::vector<WeightSpec> specs_;
};

// How to treat weights that are NaN, infinite, or too large for bf16.
enum class NotFinite { kRefused, kLoaded };

// Opens the files and checks names, shapes and types; reads no weights. BF16 tensors are in place if the file
// aligns them; F16 and F32 are rounded to the nearest bf16, and so are the values of quantised matrices
// (models/checkpoint/quantised), as the directory's config.json describes them; without a config.json there
// are none. Matrices that `model` has in codes are kept if they are stored so. Throws Error(kRuntime) if a
// tensor is missing, has a shape other than `model` expects, or another type. Logs a warning for tensors that
// the model does not use, and one for each setting of the quantisation that is not applied, such as 8-bit
// activations.
std::unique_ptr<const WeightSource> open_checkpoint_weights(const std::filesystem::path& model_dir,
                                                            const Model& model,
                                                            NotFinite not_finite = NotFinite::kRefused);

// The weights that docs/random_weights.md defines.
std::unique_ptr<const WeightSource> make_random_weights(const Model& model, uint64_t seed);

// "1 tensor" or "2 tensors".
std::string counted(size_t count, const std::string& noun);

// Logs how many tensors of each stored type were rounded to bf16, or kept; logs nothing if `tensors` is
// empty.
void report_rounded(const std::string& source, const std::map<std::string_view, size_t>& tensors);
void report_kept(const std::string& source, const std::map<std::string_view, size_t>& tensors);

// Elements [first, first + count) of one tensor.
struct WeightPiece {
  size_t tensor;
  int64_t first;
  int64_t count;
};

// The weights that the source has, in pieces of similar sizes that lie in one tensor each; whole rows of
// tensors that are kept in codes.
std::vector<WeightPiece> cut_into_pieces(const WeightSource& source);

// Calls run(piece) for all pieces on all cores. If `run` throws, loading stops and the exception of the piece
// with the lowest index is rethrown. `progress` counts finished pieces, so pieces should have similar sizes.
void for_each_weight_piece(std::span<const WeightPiece> pieces,
                           const std::function<void(const WeightPiece&)>& run, int64_t total_bytes,
                           const LoadProgress& progress);

}  // namespace serval
