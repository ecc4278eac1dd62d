#include "scheduler/pass_values.h"

#include <cstring>

#include "instructions/isa.h"
#include "vm/state/parts.h"

namespace serval {
namespace {

uint32_t word_of(const Instruction& instruction, const FieldInfo& field) {
  uint32_t word = 0;
  std::memcpy(&word, instruction.operands.data() + field.offset, sizeof word);
  return word;
}

// Tensors of one pass are identified by their values, and each part of the state by the operand that names
// it.
bool name_counts(const Tensor& tensor) {
  return is_immutable(tensor.kind) || tensor.kind == TensorKind::kKvCache;
}

}  // namespace

PassValues::PassValues(std::span<const Tensor> tensors, ValueTable& values)
    : tensors_(tensors),
      values_(&values),
      contents_(tensors.size(), values),
      before_pass_(tensors.size(), kNoValue) {
  names_.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    names_.push_back(name_counts(t) ? values.name(t.name) + 1 : 0);
    within_pass_.push_back(lives_within_pass(t));
  }
}

void PassValues::add_operands(const Instruction& instruction) {
  words_.assign(1, instruction.opcode);
  for (const FieldInfo& field : op_info(instruction.opcode).fields) {
    if (field.window) continue;
    const uint32_t word = word_of(instruction, field);
    words_.push_back(names_tensors(field.kind) ? names_[word] : word);
  }
}

Value PassValues::before_pass(TensorId tensor) {
  Value& value = before_pass_[tensor.index];
  if (value == kNoValue) value = values_->before_pass(tensors_[tensor.index].name);
  return value;
}

// The part of a region that must have been written in this pass before it is read. Of a cache, which lives
// across passes, this is only the pass's tokens. None if the contents may be older.
std::optional<Part> PassValues::fresh_part(const Region& read) const {
  if (within_pass_[read.tensor.index]) return read.part;
  if (tensors_[read.tensor.index].kind == TensorKind::kKvCache) return Part::kNewTokens;
  return std::nullopt;
}

std::optional<NoValue> PassValues::read(const Region& region) {
  const std::optional<Part> fresh = fresh_part(region);
  Region wanted = region;
  wanted.part = fresh.value_or(Part::kWhole);
  if (wanted.part != region.part) wanted.layout = 0;
  Contents::Found found = contents_.find(wanted);
  if (!fresh && found.nothing_written) found.value = before_pass(region.tensor);
  if (found.value == kNoValue) {
    if (found.other != NoValue::kNone || !fresh)
      return NoValue{NoValue::Why::kMixedValues, wanted, found.one, found.other};
    return NoValue{NoValue::Why::kNotWritten, wanted};
  }
  Operand& operand = operands_[region.operand];
  if (operand.value == kNoValue) operand = {found.value, &region};
  if (operand.value == found.value) return std::nullopt;
  const auto writer = [&](const Region& of) { return contents_.writer(of).value_or(NoValue::kNone); };
  return NoValue{NoValue::Why::kMixedValues, wanted, writer(*operand.region), writer(region)};
}

std::optional<NoValue> PassValues::write(uint32_t index, const Region& region) {
  const Tensor& tensor = tensors_[region.tensor.index];
  const Value value = ValueTable::written(computation_, region.operand);
  if (within_pass_[region.tensor.index]) {
    contents_.write(region, value, index);
    return std::nullopt;
  }
  if (tensor.kind == TensorKind::kKvCache) {
    // A second writer is wrong: later passes would read these tokens as the last writer left them.
    if (const auto writer = contents_.writer(region))
      return NoValue{NoValue::Why::kWrittenTwice, region, *writer};
    contents_.write(region, value, index);
    return std::nullopt;
  }
  Region left = region;
  left.part = Part::kWhole;
  left.certain = true;
  if (region.certain) {
    contents_.write(left, value, index);
    return std::nullopt;
  }
  const Contents::Found found = contents_.find(left);
  if (found.value == kNoValue && !found.nothing_written)
    return NoValue{NoValue::Why::kMixedValues, left, found.one, index};
  const Value before = found.value == kNoValue ? before_pass(region.tensor) : found.value;
  contents_.write(left, values_->either(before, value), index);
  return std::nullopt;
}

std::optional<NoValue> PassValues::visit(uint32_t index, const Instruction& instruction,
                                         const Footprint& footprint) {
  operands_ = {};
  for (const Region& region : footprint) {
    if (!reads(region.access) || is_immutable(tensors_[region.tensor.index].kind)) continue;
    if (auto none = read(region)) return none;
  }
  add_operands(instruction);
  for (size_t o = 0; o < operands_.size(); ++o) {
    if (operands_[o].value != kNoValue) words_.insert(words_.end(), {o, operands_[o].value});
  }
  computation_ = values_->computation(words_);
  for (const Region& region : footprint) {
    if (!writes(region.access)) continue;
    if (auto none = write(index, region)) return none;
  }
  return std::nullopt;
}

const char* first_difference(std::span<const Tensor> tensors, const Instruction& one,
                             std::span<const Tensor> other_tensors, const Instruction& other) {
  for (const FieldInfo& field : op_info(one.opcode).fields) {
    if (field.window) continue;
    const uint32_t a = word_of(one, field), b = word_of(other, field);
    if (!names_tensors(field.kind)) {
      if (a != b) return field.name;
      continue;
    }
    const Tensor &here = tensors[a], &there = other_tensors[b];
    if ((name_counts(here) || name_counts(there)) && here.name != there.name) return field.name;
  }
  return nullptr;
}

}  // namespace serval
