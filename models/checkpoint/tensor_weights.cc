#include "models/checkpoint/tensor_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/stored_elements.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

[[noreturn]] void refuse(const std::string& tensor, const std::string& reason) {
  throw Error(ErrorKind::kUsage, fmt::format("weights: tensor {}: {}", shown(tensor), reason));
}

void check_type(const TensorView& tensor) {
  if (tensor.dtype == StoredType::kBF16 || tensor.dtype == StoredType::kF16 ||
      tensor.dtype == StoredType::kF32)
    return;
  refuse(tensor.name, fmt::format("type {}; supported: BF16, F16 and F32", dtype_name(tensor.dtype)));
}

void check_shape(const TensorView& tensor, const WeightSpec& spec) {
  std::vector<int64_t> expected = {spec.rows, spec.cols};
  if (spec.kind != WeightKind::kMatrix) expected.erase(expected.begin());
  if (tensor.shape == expected) return;
  refuse(tensor.name, fmt::format("shape {}; expected {}", shape_text(tensor.shape), shape_text(expected)));
}

class TensorWeights final : public WeightSource {
 public:
  TensorWeights(const Model& model, std::span<const TensorView> tensors)
      : WeightSource(model), given_(specs().size(), nullptr) {
    const std::map<std::string, size_t, std::less<>> places = places_of(model);
    for (const TensorView& tensor : tensors) {
      const auto place = places.find(tensor.name);
      if (place == places.end()) refuse(tensor.name, "the model has no tensor of this name");
      check_type(tensor);
      check_shape(tensor, specs()[place->second]);
      add(tensor, given_[place->second]);
    }
  }

  std::string name() const override { return "weights"; }
  bool has(size_t tensor) const override { return given_[tensor] != nullptr; }

  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    read_stored_elements(*given_[tensor], first, out);
  }

  const uint16_t* in_place(size_t tensor) const override {
    const TensorView* view = given_[tensor];
    const bool usable = view != nullptr && view->dtype == StoredType::kBF16 &&
                        reinterpret_cast<uintptr_t>(view->bytes.data()) % alignof(uint16_t) == 0;
    return usable ? reinterpret_cast<const uint16_t*>(view->bytes.data()) : nullptr;
  }

  // Before any weight is replaced, so that a value which is not finite leaves all weights as they are.
  void check_values() const {
    for_each_weight_piece(cut_into_pieces(*this),
                          [&](const WeightPiece& piece) {
                            std::vector<uint16_t> bf16(static_cast<size_t>(piece.count));
                            read(piece.tensor, piece.first, bf16);
                            const size_t bad = first_not_finite(bf16);
                            if (bad < bf16.size())
                              refuse_element(piece.tensor, piece.first + static_cast<int64_t>(bad));
                          },
                          total_bytes(), {});
  }

 private:
  // Index in specs() by all names of each weight.
  std::map<std::string, size_t, std::less<>> places_of(const Model& model) const {
    std::map<std::string, size_t, std::less<>> places;
    for (const WeightSpec& spec : model.weights()) {
      const size_t index = index_of(spec.source_name());
      places.emplace(spec.name, index);
      if (!spec.alias.empty()) places.emplace(spec.alias, index);
    }
    return places;
  }

  static void add(const TensorView& tensor, const TensorView*& place) {
    if (place != nullptr) {
      if (place->name == tensor.name) refuse(tensor.name, "given twice");
      if (!equal_as_bf16(*place, tensor)) {
        refuse(tensor.name,
               fmt::format("differs from {}; the model has one matrix for both", shown(place->name)));
      }
    }
    place = &tensor;
  }

  [[noreturn]] void refuse_element(size_t tensor, int64_t index) const {
    const TensorView& view = *given_[tensor];
    uint16_t bf16 = 0;
    read(tensor, index, {&bf16, 1});
    float stored = bf16_to_float(bf16);
    if (view.dtype == StoredType::kF32)
      std::memcpy(&stored, view.bytes.data() + static_cast<size_t>(index) * sizeof stored, sizeof stored);
    refuse_not_finite(fmt::format("weights: tensor {}", shown(view.name)), specs()[tensor], index, stored);
  }

  std::vector<const TensorView*> given_;  // in order of specs(); null: not given
};

}  // namespace

std::unique_ptr<const WeightSource> make_tensor_weights(const Model& model,
                                                        std::span<const TensorView> tensors,
                                                        NotFinite not_finite) {
  auto weights = std::make_unique<const TensorWeights>(model, tensors);
  if (not_finite == NotFinite::kRefused) weights->check_values();
  return weights;
}

}  // namespace serval
