#include "tests/prove/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "instructions/isa.h"
#include "tests/prove/draft.h"

namespace serval::testing {
namespace {

// Returns whether an operand field selects the part of a tensor that an instruction uses.
bool is_range(const FieldInfo& field) {
  const std::string_view name = field.name;
  return name.starts_with("first_") || name.starts_with("num_") || name == "kv_head" || name == "lane";
}

uint32_t read_field(const Instruction& i, const FieldInfo& field) {
  uint32_t value;
  std::memcpy(&value, i.operands.data() + field.offset, sizeof(value));
  return value;
}

void write_field(Instruction& i, const FieldInfo& field, uint32_t value) {
  std::memcpy(i.operands.data() + field.offset, &value, sizeof(value));
}

bool same_program(const Program& a, const Program& b) {
  return serialise(a) == serialise(b);
}

class Mutator {
 public:
  Mutator(const Program& original, RandomOrder& random) : draft_(original), random_(random) {}
  // Returns false if there is nothing that it could change.
  bool apply(Mutation mutation);
  Program result() const { return draft_.assemble(); }

 private:
  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_.below(limit)); }
  bool coin() { return below(2) == 0; }
  template <class T>
  T& any(std::vector<T>& from) {
    return from[below(from.size())];
  }
  std::vector<Step>* any_queue(size_t least);
  Step& any_step() {
    all_ = draft_.steps();
    return *any(all_);
  }
  Step* any_waiting();
  Step* any_signalling();
  uint32_t other_counter(uint32_t than);
  void recount() { coin() ? draft_.count_increments() : draft_.count_increments_and_follow(); }

  bool change_wait(Mutation mutation);
  bool change_signal(Mutation mutation);
  bool change_queues(Mutation mutation);
  bool change_operands(Mutation mutation);
  bool change_tables(Mutation mutation);
  bool change_header(Mutation mutation);
  bool change_peers(Mutation mutation);
  bool change_peer_signal(Mutation mutation);
  bool change_system_counter(Mutation mutation);
  bool change_slice();
  bool change_tokens(Instruction& record);
  bool change_pushed(FieldKind kind);
  bool move_to_another_rank();
  bool flip_logits_only();
  bool divide_leaves(Step& step);
  bool change_limit();
  bool change_heads();
  bool rename_tensor();
  bool reshape_tensor();
  uint32_t near(uint32_t value);
  bool move_region(Step& step);
  bool take_region_of_another(Step& step);
  bool swap_tensor(Step& step);
  bool spoil_operand(Step& step);

  bool change_meaning(Mutation mutation);
  // The step alone, or all that do the same in its layer.
  std::vector<Step*> stage_of(const Step& step);
  bool swap_state_part(Step& step);
  bool name_twice(Step& step);
  bool take_cache(Step& step);
  bool leave_rows_out(Step& step);
  bool differ(Step& step);
  bool change_parts();

  Draft draft_;
  RandomOrder& random_;
  std::vector<Step*> all_;
};

std::vector<Step>* Mutator::any_queue(size_t least) {
  std::vector<std::vector<Step>*> candidates;
  for (std::vector<Step>& q : draft_.queues) {
    if (q.size() >= least) candidates.push_back(&q);
  }
  return candidates.empty() ? nullptr : any(candidates);
}

Step* Mutator::any_waiting() {
  all_ = draft_.steps();
  std::erase_if(all_, [](const Step* s) { return s->waits.empty(); });
  return all_.empty() ? nullptr : any(all_);
}

Step* Mutator::any_signalling() {
  all_ = draft_.steps();
  std::erase_if(all_, [](const Step* s) { return s->signals.empty(); });
  return all_.empty() ? nullptr : any(all_);
}

uint32_t Mutator::other_counter(uint32_t than) {
  const auto count = static_cast<uint32_t>(draft_.rest.counters.size());
  return count < 2 ? than : (than + 1 + below(count - 1)) % count;
}

bool Mutator::change_wait(Mutation mutation) {
  Step* step = any_waiting();
  if (step == nullptr) return false;
  Wait& w = any(step->waits);
  const uint32_t total = draft_.rest.counters[w.counter].increments_per_pass;
  switch (mutation) {
    case Mutation::kWaitDropped:
      step->waits.erase(step->waits.begin() + (&w - step->waits.data()));
      return true;
    case Mutation::kWaitLowered:
      if (w.threshold == 0) return false;
      w.threshold = coin() ? w.threshold - 1 : below(w.threshold);
      return true;
    case Mutation::kWaitRaised:
      w.threshold += coin() ? 1 : 1 + below(total + 1);
      return true;
    case Mutation::kWaitMisdirected:
      w.counter = other_counter(w.counter);
      if (coin()) w.threshold = draft_.rest.counters[w.counter].increments_per_pass;
      return true;
    case Mutation::kWaitGuardsLess: {
      std::vector<uint32_t> bits;
      for (uint32_t b = 0; b < kMaxTensorOperands; ++b) {
        if ((w.operand_mask >> b & 1) != 0) bits.push_back(b);
      }
      if (bits.empty()) return false;
      w.operand_mask &= ~(1U << any(bits));
      return true;
    }
    case Mutation::kWaitGuardsOther:
      w.operand_mask = coin() ? w.operand_mask << 1 : below(size_t{1} << kMaxTensorOperands);
      return true;
    default:
      w.threshold = 0;
      return true;
  }
}

bool Mutator::change_signal(Mutation mutation) {
  Step* step = any_signalling();
  if (step == nullptr) return false;
  Signal& s = any(step->signals);
  switch (mutation) {
    case Mutation::kSignalDropped:
      step->signals.erase(step->signals.begin() + (&s - step->signals.data()));
      break;
    case Mutation::kSignalMisdirected:
      s.counter = other_counter(s.counter);
      break;
    default:
      s.increment *= 2;
      break;
  }
  recount();
  return true;
}

bool Mutator::change_queues(Mutation mutation) {
  std::vector<Step>* queue = any_queue(mutation == Mutation::kQueueOrderSwapped ? 2 : 1);
  if (queue == nullptr) return false;
  const uint32_t at = below(queue->size());
  switch (mutation) {
    case Mutation::kQueueOrderSwapped: {
      const uint32_t other = coin() ? below(queue->size()) : at + 1;
      std::swap((*queue)[at], (*queue)[other % queue->size()]);
      return true;
    }
    case Mutation::kInstructionDropped:
      queue->erase(queue->begin() + at);
      recount();
      return true;
    default:
      break;
  }
  const Step step = (*queue)[at];
  if (mutation == Mutation::kMovedElsewhere) queue->erase(queue->begin() + at);
  std::vector<Step>& target = any(draft_.queues);
  target.insert(target.begin() + below(target.size() + 1), step);
  if (mutation == Mutation::kInstructionDuplicated) recount();
  return true;
}

bool Mutator::move_region(Step& step) {
  std::vector<const FieldInfo*> fields;
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (is_range(f)) fields.push_back(&f);
  }
  if (fields.empty()) return false;
  const FieldInfo& field = *any(fields);
  const uint32_t value = read_field(step.record, field);
  const bool up = value == 0 || coin();
  constexpr uint32_t kFar = 8;
  const uint32_t by = coin() ? 1 : 1 + below(kFar);
  write_field(step.record, field, up ? value + by : value - std::min(value, by));
  return true;
}

bool Mutator::take_region_of_another(Step& step) {
  std::vector<Step*> same = draft_.steps();
  std::erase_if(same, [&](const Step* s) { return s->record.opcode != step.record.opcode; });
  const Step& other = *any(same);
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (is_range(f)) write_field(step.record, f, read_field(other.record, f));
  }
  return true;
}

bool Mutator::swap_tensor(Step& step) {
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  std::vector<std::pair<const FieldInfo*, uint32_t>> choices;
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (f.kind != FieldKind::kTensor) continue;
    const uint32_t now = read_field(step.record, f);
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      // A wrong weight gives a wrong answer, but it is not an error of the schedule.
      if (t != now && !is_immutable(tensors[t].kind) && same_layout(tensors[t], tensors[now]))
        choices.emplace_back(&f, t);
    }
  }
  if (choices.empty()) return false;
  const auto [field, tensor] = any(choices);
  write_field(step.record, *field, tensor);
  return true;
}

bool Mutator::spoil_operand(Step& step) {
  const std::vector<FieldInfo>& fields = op_info(step.record.opcode).fields;
  const FieldInfo& field = fields[below(fields.size())];
  const uint32_t value = read_field(step.record, field);
  const std::array<uint32_t, 6> spoilt = {
      0, ~0U, value ^ 1U << below(32), static_cast<uint32_t>(random_.next()), value + 1, value * 2,
  };
  write_field(step.record, field, spoilt[below(spoilt.size())]);
  return true;
}

bool Mutator::change_operands(Mutation mutation) {
  Step& step = any_step();
  switch (mutation) {
    case Mutation::kRegionMoved:
      return move_region(step);
    case Mutation::kRegionOfAnother:
      return take_region_of_another(step);
    case Mutation::kTensorSwapped:
      return swap_tensor(step);
    case Mutation::kBadOperand:
      return spoil_operand(step);
    case Mutation::kLeavesElsewhere:
      return divide_leaves(step);
    default:
      step.record.opcode = static_cast<uint16_t>(below(kNumOpcodes + 2));
      return true;
  }
}

bool Mutator::change_tables(Mutation mutation) {
  Program& rest = draft_.rest;
  Counter& counter = any(rest.counters);
  switch (mutation) {
    case Mutation::kWrongEpoch:
      counter.increments_per_pass += coin() ? 1 : ~0U;
      return true;
    case Mutation::kGateMoved:
      rest.gate_counter = other_counter(rest.gate_counter);
      return true;
    case Mutation::kTooFewPages:
      rest.machine.pages_per_sm = below(3);
      return true;
    default:
      counter.scope = mutation == Mutation::kBlockScope ? CounterScope::kBlock : CounterScope::kSystem;
      return true;
  }
}

uint32_t Mutator::near(uint32_t value) {
  const std::array<uint32_t, 6> choices = {value + 1, value - 1, value * 2, value / 2, 64, 0};
  return choices[below(choices.size())];
}

// One record, or all of its kind in a layer.
bool Mutator::flip_logits_only() {
  const auto field_of = [](const Step& step) -> const FieldInfo* {
    if (step.record.opcode >= kNumOpcodes) return nullptr;
    const std::vector<FieldInfo>& fields = op_info(step.record.opcode).fields;
    const auto found = std::find_if(fields.begin(), fields.end(), [](const FieldInfo& f) {
      return std::string_view(f.name) == "logits_only";
    });
    return found == fields.end() ? nullptr : &*found;
  };
  std::vector<Step*> having = draft_.steps();
  std::erase_if(having, [&](const Step* s) { return field_of(*s) == nullptr; });
  if (having.empty()) return false;
  const Instruction one = any(having)->record;
  const bool all = coin();
  for (Step* step : having) {
    Instruction& i = step->record;
    if (i.operands != one.operands && !(all && i.opcode == one.opcode && i.tag == one.tag)) continue;
    const FieldInfo& field = *field_of(*step);
    write_field(i, field, 1 - std::min(read_field(i, field), 1U));
  }
  return true;
}

// Makes the merge look for attention's results in another number of splits.
bool Mutator::divide_leaves(Step& step) {
  if (step.record.opcode != static_cast<uint16_t>(Opcode::kAttentionMerge)) return false;
  auto op = step.record.as<AttentionMerge>();
  op.splits = coin() ? 2 * op.splits : near(op.splits);
  step.record.set(op);
  return true;
}

// One field, or the same channels divided into other heads.
bool Mutator::change_heads() {
  HeadShape& heads = draft_.rest.heads;
  switch (below(4)) {
    case 0:
      heads.head_dim = coin() ? 192 - heads.head_dim : near(heads.head_dim);
      return true;
    case 1:
      heads.q_heads = coin() ? 2 * heads.q_heads : near(heads.q_heads);
      return true;
    case 2:
      heads.kv_heads = coin() ? 2 * heads.kv_heads : near(heads.kv_heads);
      return true;
    default:
      if (heads.head_dim == 64) {
        heads = {128, heads.q_heads / 2, heads.kv_heads / 2};
      } else {
        heads = {64, heads.q_heads * 2, heads.kv_heads * 2};
      }
      return true;
  }
}

bool Mutator::change_limit() {
  StateLimits& limits = draft_.rest.limits;
  const std::array<uint32_t*, 3> all = {&limits.vocab, &limits.max_context, &limits.kv_blocks};
  uint32_t& limit = *all[below(all.size())];
  limit = near(limit);
  return true;
}

// Renames it like another tensor, like a part of the state, or to an unknown name.
bool Mutator::rename_tensor() {
  std::vector<Tensor>& tensors = draft_.rest.tensors;
  Tensor& tensor = any(tensors);
  std::string name = coin() ? any(tensors).name : tensor.name + "x";
  if (coin())
    std::swap(tensor.name, any(tensors).name);
  else
    tensor.name = std::move(name);
  return true;
}

bool Mutator::reshape_tensor() {
  Tensor& tensor = any(draft_.rest.tensors);
  switch (below(7)) {
    case 0:
      tensor.rows = near(static_cast<uint32_t>(tensor.rows));
      return true;
    case 1:
      tensor.cols = near(static_cast<uint32_t>(tensor.cols));
      return true;
    case 2:
      tensor.dtype = static_cast<DType>(below(kNumDTypes));
      return true;
    case 3:
      tensor.kind = static_cast<TensorKind>(below(kNumTensorKinds));
      return true;
    case 4:
      tensor.image = static_cast<Image>(below(kNumImages));
      return true;
    case 5:
      tensor.row_order = static_cast<RowOrder>(below(2));
      return true;
    default:
      tensor.head_dim = near(tensor.head_dim);
      return true;
  }
}

bool Mutator::change_header(Mutation mutation) {
  Program& rest = draft_.rest;
  switch (mutation) {
    case Mutation::kLimitChanged:
      return change_limit();
    case Mutation::kOrderChanged:
      rest.order = static_cast<Order>(below(kNumOrders + 1));
      return true;
    case Mutation::kHeadsChanged:
      return change_heads();
    case Mutation::kTensorRenamed:
      return rename_tensor();
    case Mutation::kTensorReshaped:
      return reshape_tensor();
    default:
      rest.num_devices = coin() ? 1 : 2;
      if (coin()) any(rest.tensors).device = 1;
      if (coin()) any(rest.counters).device = 1;
      return true;
  }
}

// Drops a signal to a counter on another device, or sends it to another counter there.
bool Mutator::change_peer_signal(Mutation mutation) {
  struct PeerSignal {
    Step* step;
    size_t at;
  };
  std::vector<PeerSignal> found;
  for (Step* step : draft_.steps()) {
    const uint32_t device = device_of(draft_.rest.tensors, step->record);
    for (size_t s = 0; s < step->signals.size(); ++s) {
      if (draft_.rest.counters[step->signals[s].counter].device != device) found.push_back({step, s});
    }
  }
  if (found.empty()) return false;
  const PeerSignal& peer = any(found);
  Signal& signal = peer.step->signals[peer.at];
  if (mutation == Mutation::kPeerSignalDropped) {
    peer.step->signals.erase(peer.step->signals.begin() + static_cast<std::ptrdiff_t>(peer.at));
  } else {
    const uint32_t to = other_counter(signal.counter);
    if (coin() && draft_.rest.counters[to].device != draft_.rest.counters[signal.counter].device)
      return false;
    signal.counter = to;
  }
  recount();
  return true;
}

bool Mutator::change_system_counter(Mutation mutation) {
  std::vector<Counter*> system;
  for (Counter& c : draft_.rest.counters) {
    if (c.scope == CounterScope::kSystem) system.push_back(&c);
  }
  if (system.empty()) return false;
  Counter& counter = *any(system);
  if (mutation == Mutation::kCounterOfGpuScope)
    counter.scope = CounterScope::kGpu;
  else
    counter.device = static_cast<uint8_t>((counter.device + 1 + below(draft_.rest.num_devices - 1)) %
                                          draft_.rest.num_devices);
  return true;
}

// Computes logits of tokens that another rank's weights hold, with those weights or with its own.
bool Mutator::change_tokens(Instruction& record) {
  std::vector<Step*> others = draft_.steps();
  const uint32_t device = device_of(draft_.rest.tensors, record);
  std::erase_if(others, [&](const Step* s) {
    return s->record.opcode != record.opcode || device_of(draft_.rest.tensors, s->record) == device;
  });
  if (others.empty()) return false;
  const auto other = any(others)->record.as<LmHead>();
  auto op = record.as<LmHead>();
  op.first_unit = other.first_unit;
  op.num_units = other.num_units;
  if (coin()) op.weights_unit = other.weights_unit;
  if (coin()) op.weights = other.weights;
  record.set(op);
  return true;
}

// Pushes partial sums as another rank's, adds up another rank's sums, or computes logits of another rank's
// tokens.
bool Mutator::change_slice() {
  constexpr std::array kOfSlices = {Opcode::kMatvecPush, Opcode::kEmbedPush, Opcode::kReduceResidual,
                                    Opcode::kLmHead};
  const Opcode opcode = kOfSlices[below(kOfSlices.size())];
  std::vector<Step*> steps = draft_.steps();
  std::erase_if(steps, [&](const Step* s) { return s->record.opcode != static_cast<uint16_t>(opcode); });
  if (steps.empty()) return false;
  Instruction& record = any(steps)->record;
  const uint32_t by = 1 + below(draft_.rest.num_devices - 1);
  if (opcode == Opcode::kLmHead) return change_tokens(record);
  if (opcode == Opcode::kMatvecPush) {
    auto op = record.as<MatvecPush>();
    if (op.ranks == 0) return false;
    op.rank = (op.rank + by) % op.ranks;
    if (coin()) op.weights.index += by;
    record.set(op);
  } else if (opcode == Opcode::kEmbedPush) {
    auto op = record.as<EmbedPush>();
    if (op.ranks == 0) return false;
    op.rank = (op.rank + by) % op.ranks;
    if (coin()) op.table.index += by;
    record.set(op);
  } else {
    auto op = record.as<ReduceResidual>();
    if (op.ranks == 0) return false;
    const uint32_t units = op.out_cols / op.ranks / kUnitRows, within = op.first_unit - op.rank * units;
    const uint32_t rank = (op.rank + by) % op.ranks;
    op.first_unit = rank * units + within;
    if (coin()) op.partial.index += rank - op.rank;
    if (coin()) op.rank = rank;
    record.set(op);
  }
  return true;
}

// Redirects a push to another tensor that fits the operand.
bool Mutator::change_pushed(FieldKind kind) {
  std::vector<std::pair<Step*, const FieldInfo*>> found;
  for (Step* step : draft_.steps()) {
    for (const FieldInfo& f : op_info(step->record.opcode).fields) {
      if (f.pushed && f.kind == kind) found.emplace_back(step, &f);
    }
  }
  if (found.empty()) return false;
  const auto& [step, field] = any(found);
  const uint32_t now = read_field(step->record, *field);
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  std::vector<uint32_t> others;
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    if (t != now && same_layout(tensors[t], tensors[now])) others.push_back(t);
  }
  if (others.empty()) return false;
  write_field(step->record, *field, any(others));
  return true;
}

bool Mutator::move_to_another_rank() {
  std::vector<Step>* from = any_queue(1);
  if (from == nullptr) return false;
  const auto q = static_cast<uint32_t>(from - draft_.queues.data());
  const uint32_t sms = draft_.rest.machine.sms;
  const auto to = (q + sms * (1 + below(draft_.rest.num_devices - 1))) % draft_.queues.size();
  const uint32_t at = below(from->size());
  const Step step = (*from)[at];
  from->erase(from->begin() + at);
  std::vector<Step>& target = draft_.queues[to];
  target.insert(target.begin() + below(target.size() + 1), step);
  return true;
}

bool Mutator::change_peers(Mutation mutation) {
  if (draft_.rest.num_devices == 1) return false;
  switch (mutation) {
    case Mutation::kPeerSignalDropped:
    case Mutation::kPeerSignalMisdirected:
      return change_peer_signal(mutation);
    case Mutation::kCounterOfGpuScope:
    case Mutation::kCounterElsewhere:
      return change_system_counter(mutation);
    case Mutation::kSliceOfAnotherRank:
      return change_slice();
    case Mutation::kPeersMoved:
      return change_pushed(FieldKind::kPeers);
    case Mutation::kPushedElsewhere:
      return change_pushed(FieldKind::kTensor);
    default:
      return move_to_another_rank();
  }
}

std::vector<Step*> Mutator::stage_of(const Step& step) {
  std::vector<Step*> steps = draft_.steps();
  const bool all = coin();
  std::erase_if(steps, [&](const Step* s) {
    return s != &step && !(all && s->record.opcode == step.record.opcode && s->record.tag == step.record.tag);
  });
  return steps;
}

bool Mutator::swap_state_part(Step& step) {
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  std::vector<std::pair<const FieldInfo*, uint32_t>> alike, all;
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (f.kind != FieldKind::kTensor || f.part.empty()) continue;
    const uint32_t now = read_field(step.record, f);
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      if (t == now || tensors[t].kind != TensorKind::kState) continue;
      all.emplace_back(&f, t);
      if (same_layout(tensors[t], tensors[now])) alike.emplace_back(&f, t);
    }
  }
  if (all.empty()) return false;
  const auto [field, tensor] = alike.empty() ? any(all) : any(alike);
  for (Step* s : stage_of(step)) write_field(s->record, *field, tensor);
  return true;
}

// One operand takes the tensor of another.
bool Mutator::name_twice(Step& step) {
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  std::vector<std::pair<const FieldInfo*, const FieldInfo*>> alike;
  const std::vector<FieldInfo>& fields = op_info(step.record.opcode).fields;
  for (const FieldInfo& to : fields) {
    for (const FieldInfo& from : fields) {
      if (to.kind != FieldKind::kTensor || !names_tensors(from.kind)) continue;
      const uint32_t a = read_field(step.record, to), b = read_field(step.record, from);
      if (a != b && same_layout(tensors[a], tensors[b])) alike.emplace_back(&to, &from);
    }
  }
  if (alike.empty()) return false;
  const auto [to, from] = any(alike);
  for (Step* s : stage_of(step)) write_field(s->record, *to, read_field(s->record, *from));
  return true;
}

bool Mutator::take_cache(Step& step) {
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (!names_tensors(f.kind)) break;
    const uint32_t now = read_field(step.record, f);
    if (tensors[now].kind != TensorKind::kKvCache || coin()) continue;
    std::vector<uint32_t> others;
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      if (t != now && same_layout(tensors[t], tensors[now]) && tensors[t].device == tensors[now].device)
        others.push_back(t);
    }
    if (others.empty()) return false;
    const uint32_t other = any(others);
    const bool whole_layer = coin();
    for (Step* s : whole_layer ? draft_.steps() : stage_of(step)) {
      for (const FieldInfo& field : op_info(s->record.opcode).fields) {
        if (field.kind == FieldKind::kTensor && read_field(s->record, field) == now &&
            s->record.tag == step.record.tag)
          write_field(s->record, field, other);
      }
    }
    return true;
  }
  return false;
}

bool Mutator::leave_rows_out(Step& step) {
  for (const FieldInfo& f : op_info(step.record.opcode).fields) {
    if (std::string_view(f.name) != "num_rows") continue;
    const uint32_t rows = read_field(step.record, f);
    if (rows < 2) return false;
    const uint32_t left = coin() ? 1 : 1 + below(rows - 1);
    for (Step* s : stage_of(step)) {
      if (read_field(s->record, f) > left) write_field(s->record, f, left);
    }
    return true;
  }
  return false;
}

// In a number that is no window, or in a weight.
bool Mutator::differ(Step& step) {
  const std::vector<Tensor>& tensors = draft_.rest.tensors;
  const std::vector<FieldInfo>& fields = op_info(step.record.opcode).fields;
  const FieldInfo& field = fields[below(fields.size())];
  if (field.window) return false;
  const uint32_t now = read_field(step.record, field);
  uint32_t other = now;
  if (field.kind == FieldKind::kFloat) {
    constexpr uint32_t kExponent = 1U << 23;
    other = coin() ? now + kExponent : now ^ 1U;
  } else if (field.kind == FieldKind::kUnsigned) {
    other = near(now);
  } else {
    std::vector<uint32_t> others;
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      if (t != now && is_immutable(tensors[now].kind) && same_layout(tensors[t], tensors[now]))
        others.push_back(t);
    }
    if (others.empty()) return false;
    other = any(others);
  }
  for (Step* s : stage_of(step)) write_field(s->record, field, other);
  return true;
}

// What sums over parts of the columns are made of, and what adds them up.
bool Mutator::change_parts() {
  constexpr std::array kOfParts = {Opcode::kProjectPart, Opcode::kRopeParts, Opcode::kMatvecPart,
                                   Opcode::kAddParts};
  std::vector<Step*> steps = draft_.steps();
  std::erase_if(steps, [&](const Step* s) {
    return std::ranges::find(kOfParts, static_cast<Opcode>(s->record.opcode)) == kOfParts.end();
  });
  if (steps.empty()) return false;
  Step& step = *any(steps);
  const auto opcode = static_cast<Opcode>(step.record.opcode);
  std::erase_if(steps, [&](const Step* s) { return s->record.opcode != step.record.opcode; });
  const Instruction other = any(steps)->record;
  for (Step* s : stage_of(step)) {
    Instruction& i = s->record;
    if (opcode == Opcode::kProjectPart) {
      auto op = i.as<ProjectPart>();
      (coin() ? op.part : op.parts) = other.as<ProjectPart>().part;
      i.set(op);
    } else if (opcode == Opcode::kRopeParts) {
      auto op = i.as<RopeParts>();
      op.parts = near(op.parts);
      i.set(op);
    } else if (opcode == Opcode::kMatvecPart) {
      auto op = i.as<MatvecPart>();
      const auto from = other.as<MatvecPart>();
      if (coin()) op.sums = from.sums;
      if (coin()) op.first_col = from.first_col;
      if (coin()) op.num_cols = from.num_cols;
      i.set(op);
    } else {
      auto op = i.as<AddParts>();
      coin() ? std::swap(op.part0, op.part1) : std::swap(op.part1, op.part2);
      if (coin()) op.num_parts = near(op.num_parts);
      i.set(op);
    }
  }
  return true;
}

bool Mutator::change_meaning(Mutation mutation) {
  Step& step = any_step();
  switch (mutation) {
    case Mutation::kStatePartSwapped:
      return swap_state_part(step);
    case Mutation::kTensorNamedTwice:
      return name_twice(step);
    case Mutation::kCacheOfAnotherLayer:
      return take_cache(step);
    case Mutation::kRowsLeftOut:
      return leave_rows_out(step);
    case Mutation::kSiblingDiffers:
      return differ(step);
    default:
      return change_parts();
  }
}

// After these, what is drawn next may look at operands.
bool leaves_operands(Mutation mutation) {
  return mutation != Mutation::kOpcodeChanged && mutation != Mutation::kBadOperand &&
         mutation < Mutation::kOneAndWaitDropped;
}

bool Mutator::apply(Mutation mutation) {
  switch (mutation) {
    case Mutation::kWaitDropped:
    case Mutation::kWaitLowered:
    case Mutation::kWaitRaised:
    case Mutation::kWaitMisdirected:
    case Mutation::kWaitGuardsLess:
    case Mutation::kWaitGuardsOther:
    case Mutation::kWaitOfPreviousPass:
      return change_wait(mutation);
    case Mutation::kSignalDropped:
    case Mutation::kSignalMisdirected:
    case Mutation::kSignalDoubled:
      return change_signal(mutation);
    case Mutation::kQueueOrderSwapped:
    case Mutation::kMovedElsewhere:
    case Mutation::kInstructionDropped:
    case Mutation::kInstructionDuplicated:
      return change_queues(mutation);
    case Mutation::kRegionMoved:
    case Mutation::kRegionOfAnother:
    case Mutation::kTensorSwapped:
    case Mutation::kBadOperand:
    case Mutation::kOpcodeChanged:
    case Mutation::kLeavesElsewhere:
      return change_operands(mutation);
    case Mutation::kLogitsOnlyFlipped:
      return flip_logits_only();
    case Mutation::kLimitChanged:
    case Mutation::kOrderChanged:
    case Mutation::kHeadsChanged:
    case Mutation::kTensorRenamed:
    case Mutation::kTensorReshaped:
    case Mutation::kSeveralDevices:
      return change_header(mutation);
    case Mutation::kWrongEpoch:
    case Mutation::kGateMoved:
    case Mutation::kTooFewPages:
    case Mutation::kBlockScope:
    case Mutation::kSystemScope:
      return change_tables(mutation);
    case Mutation::kPeerSignalDropped:
    case Mutation::kPeerSignalMisdirected:
    case Mutation::kCounterOfGpuScope:
    case Mutation::kCounterElsewhere:
    case Mutation::kSliceOfAnotherRank:
    case Mutation::kPeersMoved:
    case Mutation::kPushedElsewhere:
    case Mutation::kMovedToAnotherRank:
      return change_peers(mutation);
    case Mutation::kStatePartSwapped:
    case Mutation::kTensorNamedTwice:
    case Mutation::kCacheOfAnotherLayer:
    case Mutation::kRowsLeftOut:
    case Mutation::kSiblingDiffers:
    case Mutation::kPartsOfColumnsChanged:
      return change_meaning(mutation);
    case Mutation::kOneAndWaitDropped:
      // An opcode may be unknown afterwards, so what looks at operands comes first.
      return apply(static_cast<Mutation>(below(static_cast<size_t>(Mutation::kOneAndWaitDropped)))) &&
             change_wait(Mutation::kWaitDropped);
    case Mutation::kTwoAtOnce: {
      const auto first = static_cast<Mutation>(below(static_cast<size_t>(Mutation::kOneAndWaitDropped)));
      const auto second = static_cast<Mutation>(below(static_cast<size_t>(Mutation::kOneAndWaitDropped)));
      return leaves_operands(first) && apply(first) && apply(second);
    }
  }
  return false;
}

}  // namespace

const char* name_of(Mutation mutation) {
  static constexpr const char* kNames[kNumMutations] = {
      "wait dropped",
      "wait lowered",
      "wait raised",
      "wait misdirected",
      "wait guards fewer operands",
      "wait guards other operands",
      "wait for the previous pass instead",
      "signal dropped",
      "signal misdirected",
      "signal doubled",
      "queue order swapped",
      "moved to another place or SM",
      "region moved or resized",
      "region of another instruction",
      "tensor swapped for one of its shape",
      "wrong increments of an epoch",
      "gate moved",
      "bad operand",
      "opcode changed",
      "instruction dropped",
      "instruction duplicated",
      "too few pages",
      "counter of block scope",
      "counter of system scope",
      "several devices",
      "rows without logits left out or not",
      "leaves looked for elsewhere",
      "limit of the state changed",
      "order of the sums changed",
      "heads changed",
      "tensor renamed",
      "tensor of another shape or kind",
      "signal to a peer dropped",
      "signal to a peer misdirected",
      "counter of GPU scope between ranks",
      "counter on another rank",
      "slice or share of another rank",
      "peers' tensors swapped for others",
      "pushed to another tensor or rank",
      "moved to another rank",
      "part of the state swapped",
      "tensor named by two operands",
      "cache of another layer",
      "rows left out",
      "differs from its siblings",
      "parts of columns changed",
      "one of these and a wait dropped",
      "two of these",
  };
  return kNames[static_cast<int>(mutation)];
}

std::optional<Program> mutate(const Program& original, Mutation mutation, RandomOrder& random) {
  Mutator mutator(original, random);
  if (!mutator.apply(mutation)) return std::nullopt;
  Program out = mutator.result();
  if (same_program(out, original)) return std::nullopt;
  return out;
}

}  // namespace serval::testing
