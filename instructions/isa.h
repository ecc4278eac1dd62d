// The instruction set: opcodes, names and the static properties of every instruction. Thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/isa_ops.h"
#include "vm/host/handler.h"
#include "vm/program.h"
#include "vm/region.h"

namespace serval {

enum class Opcode : uint16_t {
#define SERVAL_OP(Type, folder, semantics) k##Type,
#include "instructions/isa.def"
#undef SERVAL_OP
};

inline constexpr uint16_t kNumOpcodes = 0
#define SERVAL_OP(Type, folder, semantics) +1
#include "instructions/isa.def"
#undef SERVAL_OP
    ;

template <class Op>
inline constexpr Opcode kOpcodeOf = Opcode{kNumOpcodes};
#define SERVAL_OP(Type, folder, semantics) \
  template <>                              \
  inline constexpr Opcode kOpcodeOf<Type> = Opcode::k##Type;
#include "instructions/isa.def"
#undef SERVAL_OP

enum class FieldKind : uint8_t { kTensor, kPeers, kUnsigned, kFloat };
// True if the field's value is the index of a tensor; for kPeers, of device 0's.
constexpr bool names_tensors(FieldKind kind) {
  return kind == FieldKind::kTensor || kind == FieldKind::kPeers;
}

struct FieldInfo {
  const char* name;
  const char* unit;  // shape and direction of a tensor, unit of a number
  FieldKind kind;
  uint32_t offset;  // bytes into the operands
  bool pushed;      // names tensors that may lie on other devices than the instruction, which writes them
  bool window;      // says which part of the outputs a record computes, and nothing else (vm/reflect.h)
  std::string_view part;  // of the state, that it names if it names any (vm/state/names.h); empty: none
};

struct OpInfo {
  const char* name;       // as printed: matvec_residual
  const char* type;       // operand struct: MatvecResidual
  const char* semantics;  // one line
  uint32_t operand_bytes;
  std::vector<FieldInfo> fields;
  // The regions touched: exact if the pass's state is given; a bound over all states if `state` is null.
  void (*footprint)(const Instruction&, const ProgramShape& shape, const StateView* state, Footprint& out);
  // Cost in a pass; the instruction must have been checked against the tensors.
  Cost (*cost)(const Instruction&, const ProgramShape& shape, std::span<const Tensor>, const CostContext&);
  PageNeed (*pages)(const Instruction&);
  // The SM of a record, for instructions with one record for each SM, whose work is distributed for each
  // launch. None: the record may run on any SM.
  std::optional<uint32_t> (*home)(const Instruction&);
  // "" if the operands fit the program's tensors; otherwise one line naming the operand.
  std::string (*check)(const Program&, const Instruction&);
};

// All instructions, in the order of their opcodes.
std::span<const OpInfo> isa();
// opcode < kNumOpcodes.
const OpInfo& op_info(uint16_t opcode);
// A printable name; "unknown" for unknown opcodes.
const char* op_name(uint16_t opcode);
// 16 hexadecimal digits that identify opcodes, operand names and layouts, and whatever else compiled programs
// rely on. A stored program is valid for one instruction set only.
std::string isa_fingerprint();
// "" if the record may run on this program; checks the opcode, then its operands, that those that are not
// pushed lie on one device, and that each that names a part of the state names its own.
std::string check_instruction(const Program& program, const Instruction& instruction);
// Calls fn(field, tensor) for the tensors that a record names, without those that it pushes to. The operands
// must have been checked.
template <class Fn>
void for_own_tensors(std::span<const Tensor> tensors, const Instruction& instruction, Fn&& fn) {
  for (const FieldInfo& field : op_info(instruction.opcode).fields) {
    if (field.kind != FieldKind::kTensor || field.pushed) continue;
    uint32_t index = 0;
    std::memcpy(&index, instruction.operands.data() + field.offset, sizeof index);
    fn(field, tensors[index]);
  }
}
// Device of these tensors.
uint32_t device_of(std::span<const Tensor> tensors, const Instruction& instruction);
// True if the program has instructions for models with norms of the heads of Q and K.
bool has_head_norms(const Program& program);
// True if the program has products, or their inputs, in e4m3 with scales.
bool has_input_scales(const Program& program);
// True if the program pools hidden states.
bool has_pooling(const Program& program);
// True if the program multiplies gate and up in wide tiles
// (instructions/product/orders/sm90/tile_stream.cuh).
bool has_wide_tiles(const Program& program);
// Columns of the widest matrix that the program multiplies.
uint32_t most_product_cols(const Program& program);
// Number of K splits of this record's product (common/column_parts.h); 1 for other records.
uint32_t parts_of_columns(const Instruction& i);

template <class Op>
Instruction make_instruction(const Op& op, uint16_t tag = kNoTag) {
  static_assert(kOpcodeOf<Op> < Opcode{kNumOpcodes}, "the type has no line in isa.def");
  Instruction i;
  i.opcode = static_cast<uint16_t>(kOpcodeOf<Op>);
  i.tag = tag;
  i.set(op);
  return i;
}

// Calls visit(op) with the record's operands; the opcode must be known.
template <class Visit>
void with_operands(const Instruction& instruction, Visit&& visit) {
  const auto visit_as = [&]<class Op>() {
    if (instruction.opcode == static_cast<uint16_t>(kOpcodeOf<Op>)) visit(instruction.as<Op>());
  };
#define SERVAL_OP(Type, folder, semantics) visit_as.template operator()<Type>();
#include "instructions/isa.def"
#undef SERVAL_OP
}

// The instruction set of the host interpreter.
const HostIsa& host_isa();

}  // namespace serval
