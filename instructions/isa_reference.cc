#include "instructions/isa_reference.h"

#include <fmt/format.h>

#include "instructions/isa.h"

namespace serval {
namespace {

const char* type_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::kTensor:
      return "tensor";
    case FieldKind::kPeers:
      return "tensors";
    case FieldKind::kUnsigned:
      return "u32";
    case FieldKind::kFloat:
      return "f32";
  }
  return "?";
}

std::string op_section(uint16_t opcode) {
  const OpInfo& info = op_info(opcode);
  std::string out = fmt::format("\n## {} `{}`\n\n{}\n\n", opcode, info.name, info.semantics);
  out += fmt::format("Operands ({} of {} bytes), defined in `instructions/{}/op.h`:\n\n", info.operand_bytes,
                     kOperandBytes, info.name);
  out += "| offset | operand | type | shape or unit |\n| --- | --- | --- | --- |\n";
  for (const FieldInfo& f : info.fields) {
    out += fmt::format("| {} | `{}` | {} | {} |\n", f.offset, f.name, type_of(f.kind), f.unit);
  }
  return out;
}

}  // namespace

std::string isa_reference() {
  std::string out =
      "# Instruction set\n\n"
      "Generated from `instructions/isa.def` by `make docs`; a test fails when this page is stale.\n\n"
      "A record is 128 bytes: a 16-byte header (opcode, tag, waits, signals) and the operands. Every "
      "instruction waits\n"
      "for the counters its record names, reads, computes, writes, then signals. Rows are the rows of the\n"
      "pass. An instruction skips rows that are not active, and one with nothing to do still signals. `in`\n"
      "and `out` say what is read and written; bf16 values are rounded to nearest even where a tensor\n"
      "stores them. Weights are bf16 or codes of 8 or 4 bits with scales: e4m3 or int4 in groups\n"
      "(`vm/dtype.h`). The input of a product with codes is f16, with bf16 weights bf16.\n\n"
      "Shapes name fields of the program, which no record repeats ([program_format.md](program_format.md)):\n"
      "`max_rows`, `max_sequences`, `max_context` and `kv_blocks` are its limits; `logit_rows` are the\n"
      "first rows of a pass that may want logits: `max_rows`, at most 1,024; `head_dim`, `q_heads` and\n"
      "`kv_heads` are the attention heads of a device; `square_cols` are the columns whose squares are\n"
      "added up together: 64 in the order of tiles, otherwise 8.\n\n"
      "| opcode | instruction | computes |\n| --- | --- | --- |\n";
  for (uint16_t o = 0; o < kNumOpcodes; ++o) {
    out += fmt::format("| {} | [`{}`](#{}-{}) | {} |\n", o, op_info(o).name, o, op_info(o).name,
                       op_info(o).semantics);
  }
  for (uint16_t o = 0; o < kNumOpcodes; ++o) out += op_section(o);
  return out;
}

}  // namespace serval
