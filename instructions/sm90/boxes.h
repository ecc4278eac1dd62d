// The boxes in which the copy engine loads an instruction's operands (vm/device/isa.h), derived from its
// op.h.
#pragma once

#include <vector>

#include "instructions/product/product.h"
#include "vm/device/sm90/boxes.h"

namespace serval {

// Boxes of a product's weights and of the tensor that it adds to, in programs of tiles.
template <HasProduct Op>
void add_product_boxes(const Op& op, std::vector<Boxes>& boxes) {
  if constexpr (matrices_of<Op>() == 2) {
    boxes[(op.*Op::kWeights[0]).index] = {BoxKind::kPairs, op.*Op::kWeights[1]};
  } else {
    for (const auto weights : Op::kWeights) boxes[(op.*weights).index] = {BoxKind::kTiles};
  }
  if constexpr (requires { Op::kAddsTo; }) boxes[(op.*Op::kAddsTo).index] = {BoxKind::kRows};
}

// Boxes of an attention's caches and queries: Op::kBoxedCaches and Op::kBoxedQueries.
template <class Op>
void add_attention_boxes(const Op& op, std::vector<Boxes>& boxes) {
  if constexpr (requires { Op::kBoxedCaches; }) {
    for (const auto cache : Op::kBoxedCaches) boxes[(op.*cache).index] = {BoxKind::kKvBlocks};
    boxes[(op.*Op::kBoxedQueries).index] = {BoxKind::kQueries};
  }
}

}  // namespace serval
