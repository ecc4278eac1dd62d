#include "models/checkpoint/quantised/weight_scheme.h"

#include "fmt/format.h"

namespace serval {

std::string scheme_text(const WeightScheme& scheme) {
  const std::string type =
      scheme.type == CodeType::kE4M3 ? "e4m3" : fmt::format("{}-bit integers", scheme.bits());
  switch (scheme.granularity) {
    case Granularity::kTensor:
      return type + " with a scale per matrix";
    case Granularity::kRow:
      return type + " with a scale per row";
    case Granularity::kTensorOrRow:
      return type + " with a scale per matrix or row";
    case Granularity::kGroup:
      return fmt::format("{} in groups of {}", type, scheme.block_cols);
    case Granularity::kBlock:
      return fmt::format("{} in blocks of {} × {}", type, scheme.block_rows, scheme.block_cols);
  }
  return type;
}

}  // namespace serval
