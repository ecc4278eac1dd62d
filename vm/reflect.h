// Each operand struct lists its fields once, in `fields`; names, units, indices and printing come from that
// list.
//
//   struct Example {
//     TensorId input;
//     uint32_t first_unit;
//     template <class V> static constexpr void fields(V&& v) {
//       v(&Example::input, "input", "in [rows, cols] bf16");
//       v(&Example::first_unit, "first_unit", "units of 8 rows");
//     }
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "vm/instruction.h"

namespace serval {

template <class Member>
struct MemberOf;
template <class Op, class Field>
struct MemberOf<Field Op::*> {
  using Struct = Op;
  using Type = Field;
};

// Position of a tensor operand among the tensor operands of its struct: its bit in Wait::operand_mask.
template <auto Member>
consteval uint8_t operand_index() {
  using Op = typename MemberOf<decltype(Member)>::Struct;
  int next = 0;
  int found = -1;
  Op::fields([&](auto member, const char*, const char*) {
    if constexpr (std::is_same_v<decltype(member), decltype(Member)>) {
      if (member == Member) found = next;
      ++next;
    }
  });
  if (found < 0 || next > kMaxTensorOperands)
    throw "the member is not in fields(), or there are too many tensors";
  return static_cast<uint8_t>(found);
}

// How many tensors the struct names. They come first in it, so that the n-th is its n-th word.
template <class Op>
consteval uint32_t tensor_operands() {
  uint32_t count = 0;
  bool number_seen = false;
  Op::fields([&](auto member, const char*, const char*) {
    if constexpr (std::is_same_v<typename MemberOf<decltype(member)>::Type, TensorId>) {
      if (number_seen) throw "a tensor stands behind a number";
      ++count;
    } else {
      number_seen = true;
    }
  });
  return count;
}

// True if `fields` lists every byte of the struct: no field forgotten, no padding.
template <class Op>
consteval bool fields_cover() {
  size_t bytes = 0;
  Op::fields([&](auto member, const char*, const char*) {
    bytes += sizeof(typename MemberOf<decltype(member)>::Type);
  });
  return bytes == sizeof(Op);
}

}  // namespace serval
