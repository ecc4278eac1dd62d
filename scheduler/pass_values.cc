#include "scheduler/pass_values.h"

#include <algorithm>
#include <bit>
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

constexpr size_t kOperandWords = kOperandBytes / sizeof(uint32_t);
using OperandWords = std::array<uint32_t, kOperandWords>;

// A mask of the operands that decide what an instruction of the opcode computes: all but windows.
OperandWords compared_bits(const OpInfo& op) {
  OperandWords out;
  out.fill(~uint32_t{0});
  for (const FieldInfo& field : op.fields) {
    if (field.window) out[field.offset / sizeof(uint32_t)] = 0;
  }
  return out;
}

// Both have the same opcode.
bool differ_in_windows_only(const Instruction& a, const Instruction& b) {
  static const std::vector<OperandWords> bits = [] {
    std::vector<OperandWords> of_each;
    for (const OpInfo& op : isa()) of_each.push_back(compared_bits(op));
    return of_each;
  }();
  const auto words_a = std::bit_cast<OperandWords>(a.operands),
             words_b = std::bit_cast<OperandWords>(b.operands);
  uint32_t differs = 0;
  for (size_t w = 0; w < kOperandWords; ++w) differs |= (words_a[w] ^ words_b[w]) & bits[a.opcode][w];
  return differs == 0;
}

// True if the tensor's name distinguishes it. Other tensors are compared by value, and each part of the state
// has its own operand.
bool name_counts(const Tensor& tensor) {
  return is_immutable(tensor.kind) || tensor.kind == TensorKind::kKvCache;
}

}  // namespace

PassValues::PassValues(std::span<const Tensor> tensors, ValueTable& values)
    : tensors_(tensors),
      values_(&values),
      contents_(tensors.size(), values),
      before_pass_(tensors.size(), kNoValue),
      visited_(isa().size()) {
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

uint32_t PassValues::computation_of(const Instruction& instruction) {
  std::array<Value, kMaxTensorOperands> values;
  std::ranges::transform(operands_, values.begin(), &Operand::value);
  Visited& last = *last_;
  if (last.any && last.values == values && differ_in_windows_only(last.instruction, instruction))
    return last.computation;
  add_operands(instruction);
  for (size_t o = 0; o < values.size(); ++o) {
    if (values[o] != kNoValue) words_.insert(words_.end(), {o, values[o]});
  }
  last.any = true;
  last.instruction = instruction;
  last.values = values;
  return last.computation = values_->computation(words_);
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

Region PassValues::wanted_part(const Region& read) const {
  Region wanted = read;
  wanted.part = fresh_part(read).value_or(Part::kWhole);
  if (wanted.part != read.part) wanted.layout = 0;
  return wanted;
}

std::optional<NoValue> PassValues::find(const Region& region, Value& value) {
  const std::optional<Part> fresh = fresh_part(region);
  const Region wanted = wanted_part(region);
  Contents::Found found = contents_.find(wanted);
  if (!fresh && found.nothing_written) found.value = before_pass(region.tensor);
  if (found.value == kNoValue) {
    if (found.other != NoValue::kNone || !fresh)
      return NoValue{NoValue::Why::kMixedValues, wanted, found.one, found.other};
    return NoValue{NoValue::Why::kNotWritten, wanted};
  }
  value = found.value;
  return std::nullopt;
}

std::optional<NoValue> PassValues::read(const Region& region, size_t position) {
  std::vector<Read>& last = last_->reads;
  if (position == last.size()) last.emplace_back();
  const uint64_t changes = contents_.changes_of(region.tensor);
  if (last[position].changes != changes || last[position].region != region) {
    Value value = kNoValue;
    if (auto none = find(region, value)) return none;
    last[position] = {region, contents_.changes_of(region.tensor), value};
  }
  const Value value = last[position].value;
  Operand& operand = operands_[region.operand];
  if (operand.value == kNoValue) operand = {value, &region};
  if (operand.value == value) return std::nullopt;
  const auto writer = [&](const Region& of) { return contents_.writer(of).value_or(NoValue::kNone); };
  return NoValue{NoValue::Why::kMixedValues, wanted_part(region), writer(*operand.region), writer(region)};
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
  last_ = &visited_[instruction.opcode];
  size_t position = 0;
  for (const Region& region : footprint) {
    if (!reads(region.access) || is_immutable(tensors_[region.tensor.index].kind)) continue;
    if (auto none = read(region, position++)) return none;
  }
  computation_ = computation_of(instruction);
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
