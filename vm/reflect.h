// Reflection of operand structs: each lists its fields once, in `fields`; names, units, indices and printing
// derive from that list.
//
//   struct Example {
//     TensorId input;
//     uint32_t first_unit;
//     template <class V> static constexpr void fields(V&& v) {
//       v(&Example::input, "input", "in [rows, cols] bf16");
//       v(&Example::first_unit, "first_unit", "units of 8 rows");
//     }
//   };
//
// A record names tensors of its own device. If it pushes to other devices, it has operands of type
// PeerTensors, or lists the operands whose tensors may lie on another device:
//
//   static constexpr std::array kPushed = {&Example::output};
//
// Numbers that only say which part of its outputs a record computes, of those that several records share, are
// windows. Records that write one tensor for the same reader differ in nothing else:
//
//   static constexpr std::array kWindows = {&Example::first_unit};
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

template <class Field>
inline constexpr bool kNamesTensors = std::is_same_v<Field, TensorId> || std::is_same_v<Field, PeerTensors>;

// Position of a tensor operand among the tensor operands of its struct: its bit in Wait::operand_mask.
template <auto Member>
consteval uint8_t operand_index() {
  using Op = typename MemberOf<decltype(Member)>::Struct;
  int next = 0;
  int found = -1;
  Op::fields([&](auto member, const char*, const char*) {
    if constexpr (std::is_same_v<decltype(member), decltype(Member)>) {
      if (member == Member) found = next;
    }
    if constexpr (kNamesTensors<typename MemberOf<decltype(member)>::Type>) ++next;
  });
  if (found < 0 || next > kMaxTensorOperands)
    throw "the member is not in fields(), or there are too many tensors";
  return static_cast<uint8_t>(found);
}

// Number of tensor operands of the struct. They come first, so that the n-th is the record's n-th operand
// word.
template <class Op>
consteval uint32_t tensor_operands() {
  uint32_t count = 0;
  bool number_seen = false;
  Op::fields([&](auto member, const char*, const char*) {
    if constexpr (kNamesTensors<typename MemberOf<decltype(member)>::Type>) {
      if (number_seen) throw "tensor operands must precede numbers";
      ++count;
    } else {
      number_seen = true;
    }
  });
  return count;
}

// True if an operand may name tensors of other devices, which the record then only writes.
template <class Op, class Field>
constexpr bool is_pushed(Field Op::*member) {
  if constexpr (std::is_same_v<Field, PeerTensors>) {
    return true;
  } else if constexpr (std::is_same_v<Field, TensorId> && requires { Op::kPushed; }) {
    for (const auto pushed : Op::kPushed) {
      if (pushed == member) return true;
    }
  }
  return false;
}

// True if an operand only selects the part of an operation's outputs that a record computes.
template <class Op, class Field>
constexpr bool is_window(Field Op::*member) {
  if constexpr (std::is_same_v<Field, uint32_t> && requires { Op::kWindows; }) {
    for (const auto window : Op::kWindows) {
      if (window == member) return true;
    }
  }
  return false;
}

// Returns `op`, whose operands name rank 0's tensors, as an instance of rank `rank`, whose tensors follow
// `rank` places later in the table. Operands that are pushed to do not change.
template <class Op>
constexpr Op on_rank(Op op, uint32_t rank) {
  Op::fields([&](auto member, const char*, const char*) {
    if constexpr (std::is_same_v<typename MemberOf<decltype(member)>::Type, TensorId>) {
      if (!is_pushed(member)) (op.*member).index += rank;
    }
  });
  return op;
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
