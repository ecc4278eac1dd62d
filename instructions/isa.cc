#include "instructions/isa.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "vm/state/attention.h"
#include "vm/state/parts.h"

namespace serval {
namespace {

template <class Field>
constexpr FieldKind field_kind() {
  if constexpr (std::is_same_v<Field, TensorId>) {
    return FieldKind::kTensor;
  } else if constexpr (std::is_same_v<Field, PeerTensors>) {
    return FieldKind::kPeers;
  } else if constexpr (std::is_same_v<Field, float>) {
    return FieldKind::kFloat;
  } else {
    static_assert(std::is_same_v<Field, uint32_t>, "operands are tensors, uint32_t or float");
    return FieldKind::kUnsigned;
  }
}

template <class Op>
std::vector<FieldInfo> fields_of() {
  static_assert(fields_cover<Op>(),
                "fields() lists every field of the operand struct, and it has no padding");
  std::vector<FieldInfo> out;
  static const Op sample{};
  Op::fields([&](auto member, const char* name, const char* unit) {
    const auto* base = reinterpret_cast<const char*>(&sample);
    const auto* field = reinterpret_cast<const char*>(&(sample.*member));
    using Field = typename MemberOf<decltype(member)>::Type;
    out.push_back({name, unit, field_kind<Field>(), static_cast<uint32_t>(field - base), is_pushed(member),
                   is_window(member),
                   kNamesTensors<Field> ? state_part_of_operand(name) : std::string_view()});
  });
  return out;
}

template <class Op>
const char* name_of_operand(TensorId Op::*operand) {
  const char* found = "";
  Op::fields([&](auto member, const char* name, const char*) {
    if constexpr (std::is_same_v<decltype(member), TensorId Op::*>) {
      if (member == operand) found = name;
    }
  });
  return found;
}

// Empty, or which tensor of a product has another type than the product's first weights ask for. The tensors
// have been checked.
template <HasProduct Op>
std::string format_error(const Program& program, const Op& op) {
  const auto tensor = [&](TensorId Op::*operand) -> const Tensor& {
    return program.tensors[(op.*operand).index];
  };
  const Tensor& first = tensor(Op::kWeights.front());
  const auto refusal = [&](TensorId Op::*operand, DType expected) {
    return fmt::format("{}: tensor '{}' is {}, expected {}, since '{}' is {}", name_of_operand(operand),
                       tensor(operand).name, name_of(tensor(operand).dtype), name_of(expected), first.name,
                       name_of(first.dtype));
  };
  for (const auto operand : Op::kWeights) {
    if (tensor(operand).dtype != first.dtype) return refusal(operand, first.dtype);
  }
  if (first.dtype == DType::kE4M3 && has_input_scales(tensor(Op::kInput))) return "";
  const DType of_input = input_of_weights(first.dtype);
  return tensor(Op::kInput).dtype == of_input ? std::string() : refusal(Op::kInput, of_input);
}

template <class Op>
OpInfo make_info(const char* name, const char* type, const char* semantics) {
  OpInfo info{};
  info.name = name;
  info.type = type;
  info.semantics = semantics;
  info.operand_bytes = sizeof(Op);
  info.fields = fields_of<Op>();
  info.footprint = [](const Instruction& i, const ProgramShape& shape, const StateView* state,
                      Footprint& out) {
    const Op op = i.as<Op>();
    FootprintBuilder<Op> builder(op, shape, state, out);
    footprint(op, state, builder);
  };
  info.cost = [](const Instruction& i, const ProgramShape& shape, std::span<const Tensor> tensors,
                 const CostContext& pass) {
    return cost(i.as<Op>(), CostView{pass, shape, tensors});
  };
  info.pages = [](const Instruction& i) { return pages(i.as<Op>()); };
  info.home = []([[maybe_unused]] const Instruction& i) -> std::optional<uint32_t> {
    if constexpr (requires { Op::kOneOfEachSm; }) return i.as<Op>().record;
    return std::nullopt;
  };
  info.check = [](const Program& program, const Instruction& i) {
    OperandCheck c(program);
    const Op op = i.as<Op>();
    check(op, c);
    if constexpr (HasProduct<Op>) {
      if (c.ok()) return format_error(program, op);
    }
    return c.error();
  };
  return info;
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> infos = {
#define SERVAL_OP(Type, folder, semantics) make_info<Type>(#folder, #Type, semantics),
#include "instructions/isa.def"
#undef SERVAL_OP
  };
  return infos;
}

// Checks the operands' devices; everything else has been checked.
std::string check_devices(const Program& program, const Instruction& instruction) {
  std::string wrong;
  if (program.num_devices == 1) return wrong;
  const uint32_t device = device_of(program.tensors, instruction);
  for_own_tensors(program.tensors, instruction, [&](const FieldInfo& field, const Tensor& tensor) {
    if (tensor.device == device || !wrong.empty()) return;
    wrong = fmt::format("{}: {} is on device {}, earlier operands on device {}", field.name, tensor.name,
                        tensor.device, device);
  });
  return wrong;
}

// Parts of the state are told apart by their names: some have the same shape in some programs. An operand
// takes the part that is called like it, of whichever operation it is.
std::string check_state_parts(const Program& program, const Instruction& instruction) {
  for (const FieldInfo& field : table()[instruction.opcode].fields) {
    if (!names_tensors(field.kind)) break;  // tensors come first
    if (field.part.empty()) continue;
    uint32_t index = 0;
    std::memcpy(&index, instruction.operands.data() + field.offset, sizeof index);
    const Tensor& tensor = program.tensors[index];
    if (tensor.kind != TensorKind::kState || tensor.name == field.part) continue;
    return fmt::format("{}: tensor '{}', expected '{}'", field.name, tensor.name, field.part);
  }
  return {};
}

}  // namespace

std::span<const OpInfo> isa() {
  return table();
}

const OpInfo& op_info(uint16_t opcode) {
  return table()[opcode];
}

std::string isa_fingerprint() {
  constexpr uint64_t kPrime = 0x100000001b3;  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::string_view text) {
    for (const unsigned char c : text) hash = (hash ^ c) * kPrime;
    hash *= kPrime;  // distinguishes "ab", "c" from "a", "bc"
  };
  for (const OpInfo& info : table()) {
    add(info.name);
    for (const FieldInfo& f : info.fields)
      add(fmt::format("{} {} {}", f.name, static_cast<int>(f.kind), f.offset));
  }
  add(fmt::format("planned leaves of {}", kPlannedLeafTokens));  // decides whether a program merges them
  return fmt::format("{:016x}", hash);
}

const char* op_name(uint16_t opcode) {
  return opcode < kNumOpcodes ? table()[opcode].name : "unknown";
}

std::string check_instruction(const Program& program, const Instruction& instruction) {
  if (instruction.opcode >= kNumOpcodes)
    return fmt::format("opcode: {}; limit: {}", instruction.opcode, kNumOpcodes - 1);
  std::string error = table()[instruction.opcode].check(program, instruction);
  if (error.empty()) error = check_devices(program, instruction);
  if (error.empty()) error = check_state_parts(program, instruction);
  return error.empty() ? error : fmt::format("{}: {}", table()[instruction.opcode].name, error);
}

uint32_t device_of(std::span<const Tensor> tensors, const Instruction& instruction) {
  std::optional<uint32_t> device;
  for_own_tensors(tensors, instruction, [&](const FieldInfo&, const Tensor& tensor) {
    if (!device) device = tensor.device;
  });
  return device.value_or(0);
}

uint32_t parts_of_columns(const Instruction& i) {
  return i.opcode == static_cast<uint16_t>(Opcode::kMatvecResidual) ? i.as<MatvecResidual>().parts : 1;
}

uint32_t most_product_cols(const Program& program) {
  uint32_t most = 0;
  for (const Instruction& i : program.instructions) {
    with_operands(i, [&]<class Op>(const Op& op) {
      if constexpr (requires { op.in_cols; }) {
        most = std::max(most, op.in_cols);
      } else if constexpr (requires { op.hidden, op.squares; }) {
        most = std::max(most, op.hidden);
      }
    });
  }
  return most;
}

bool has_head_norms(const Program& program) {
  return std::ranges::any_of(program.instructions, [](const Instruction& i) {
    return i.opcode == static_cast<uint16_t>(Opcode::kQkvProject) ||
           i.opcode == static_cast<uint16_t>(Opcode::kQkNormRope);
  });
}
bool has_input_scales(const Program& program) {
  const auto is_one = [](const Tensor& tensor) { return has_input_scales(tensor); };
  if (std::ranges::none_of(program.tensors, is_one)) return false;
  return std::ranges::any_of(program.instructions, [&](const Instruction& instruction) {
    bool found = false;
    for_own_tensors(program.tensors, instruction,
                    [&](const FieldInfo&, const Tensor& tensor) { found |= has_input_scales(tensor); });
    return found;
  });
}

bool has_pooling(const Program& program) {
  return std::ranges::any_of(program.instructions, [](const Instruction& i) {
    return i.opcode == static_cast<uint16_t>(Opcode::kPool);
  });
}
bool has_wide_tiles(const Program& program) {
  return program.order == Order::kTile && std::ranges::any_of(program.instructions, [](const Instruction& i) {
           return i.opcode == static_cast<uint16_t>(Opcode::kGateUpSilu) &&
                  i.as<GateUpSilu>().num_units > kUnitsOfPairTile;
         });
}

}  // namespace serval
