// Checks the declarations of each instruction: its footprint covers everything that it touches, exact
// footprints are within their bound, instances of a stage share no output, operands are named, and a record
// that could leave its tensors is refused.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/kernels.h"
#include "tests/instructions/scene.h"
#include "tests/sample.h"
#include "vm/layout/page_image.h"
#include "vm/layout/row_tiles.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const ShapeLimits kSmall = {
    .max_hidden = 96, .max_intermediate = 96, .max_kv_heads = 2, .rows = {1, 16, 48, 256}, .tiles = true};
const uint32_t kScenes = sampled(8);

using Memory = std::vector<std::vector<std::byte>>;

// Every fourth shape has contexts of several leaves of planned attention, divided among items.
Shape shape_of_scene(uint32_t n, Random& random) {
  if (n % 4 != 3) return random_shape(random, kSmall);
  ShapeLimits limits = kSmall;
  limits.max_context = 5000;
  limits.max_kv_heads = 1;
  limits.rows = {16};
  Shape shape = random_shape(random, limits);
  shape.sequences = 2;
  shape.records = 5;
  return shape;
}

// Calls fn with scenes and each of their stages, divided into random parts.
template <class Fn>
void over_random_stages(uint64_t seed, Fn&& fn) {
  for (uint32_t n = 0; n < kScenes; ++n) {
    Random random(seed + static_cast<uint64_t>(n));
    Scene s(shape_of_scene(n, random), random);
    s.new_pass(random);
    for (const Stage& stage : s.stages()) {
      SCOPED_TRACE(stage.name() + ": " + s.shape.text());
      fn(s, stage, split(stage, random), random);
    }
  }
}

std::vector<FieldInfo> tensor_fields(const Instruction& i) {
  std::vector<FieldInfo> out;
  for (const FieldInfo& f : op_info(i.opcode).fields) {
    if (names_tensors(f.kind)) out.push_back(f);
  }
  return out;
}

template <class T>
T field_value(const Instruction& i, const FieldInfo& field) {
  T value;
  std::memcpy(&value, i.operands.data() + field.offset, sizeof value);
  return value;
}

template <class T>
Instruction with_field(Instruction i, const FieldInfo& field, T value) {
  std::memcpy(i.operands.data() + field.offset, &value, sizeof value);
  return i;
}

TEST(Fields, CoverEveryByteOfTheOperandsOnce) {
  for (const OpInfo& op : isa()) {
    std::set<uint32_t> offsets;
    std::set<std::string> names;
    for (const FieldInfo& f : op.fields) {
      EXPECT_TRUE(offsets.insert(f.offset).second) << op.name << "." << f.name;
      EXPECT_TRUE(names.insert(f.name).second) << op.name << "." << f.name;
      EXPECT_NE(std::string(f.unit), "") << op.name << "." << f.name;
      EXPECT_EQ(f.offset % sizeof(uint32_t), 0U);
      EXPECT_LT(f.offset, op.operand_bytes);
    }
    EXPECT_EQ(op.fields.size() * sizeof(uint32_t), op.operand_bytes) << op.name;
    EXPECT_LE(op.operand_bytes, kOperandBytes) << op.name;
  }
}

TEST(Footprint, NamesTheOperandItClaimsAndStaysInsideItsTensor) {
  over_random_stages(10, [](Scene& s, const Stage&, const std::vector<Instruction>& instances, Random&) {
    const StateView view = s.view();
    for (const Instruction& i : instances) {
      const std::vector<FieldInfo> tensors = tensor_fields(i);
      for (const StateView* state : {static_cast<const StateView*>(nullptr), &view}) {
        for (const Region& r : footprint_of(s.bench, i, state)) {
          ASSERT_LT(r.operand, tensors.size());
          EXPECT_EQ(field_value<uint32_t>(i, tensors[r.operand]), r.tensor.index);
          EXPECT_FALSE(r.box.empty());
          const Tensor& t = s.bench.tensor(r.tensor);
          EXPECT_TRUE((Box{0, t.rows, 0, t.cols}.contains(r.box))) << t.name;
          EXPECT_FALSE(is_immutable(t.kind) && writes(r.access)) << t.name;
        }
      }
    }
  });
}

// New tokens may be anywhere, so the columns of their bound do not restrict them (vm/region.h).
bool holds(const Region& bound, Box box) {
  if (bound.part == Part::kNewTokens) {
    box.col_begin = bound.box.col_begin;
    box.col_end = bound.box.col_end;
  }
  return bound.box.contains(box);
}

TEST(Footprint, OfAnyStateIsInsideItsBound) {
  size_t regions = 0;
  over_random_stages(
      20, [&](Scene& s, const Stage&, const std::vector<Instruction>& instances, Random& random) {
        for (int n = 0; n < 4; ++n) {
          const StateView view = s.view();
          for (const Instruction& i : instances) {
            const Footprint bound = footprint_of(s.bench, i, nullptr);
            for (const Region& r : footprint_of(s.bench, i, &view)) {
              EXPECT_TRUE(std::any_of(bound.begin(), bound.end(), [&](const Region& b) {
                return b.tensor == r.tensor && b.operand == r.operand && holds(b, r.box) &&
                       (!reads(r.access) || reads(b.access)) && (!writes(r.access) || writes(b.access));
              })) << s.bench.tensor(r.tensor).name;
              ++regions;
            }
          }
          s.new_pass(random);
        }
      });
  EXPECT_GT(regions, sampled(10000));
}

// A few instances of each stage: covers of whole tensors are slow to build.
std::vector<Instruction> some(std::vector<Instruction> instances) {
  constexpr size_t kMaxInstances = 6;
  if (instances.size() > kMaxInstances) instances.resize(kMaxInstances);
  return instances;
}

// Adds what the list of items assigns to the region's record; for reads, what it assigns to all records.
template <class Add>
void add_divided(const Scene& s, const Region& bound, Add&& add) {
  const AttentionList& list = *s.bench.data<const AttentionList>(s.t.items);
  const uint64_t group_cols = uint64_t{s.shape.q_heads / s.shape.kv_heads} * s.shape.head_dim;
  const uint32_t first = reads(bound.access) ? 0 : bound.share;
  const uint32_t end = reads(bound.access) ? list.records : bound.share + 1;
  for (uint32_t i = list.begin[first]; i < list.begin[end] && bound.part != Part::kSplitRows; ++i) {
    const AttentionItem& item = list.item()[i];
    for (uint32_t n = 0; n < item.rows; ++n) {
      const uint64_t r = item.first_row + n, place = item.first_place + n * item.row_places;
      const uint32_t leaves = planned_leaves(s.rows()[r].position + 1);
      if (s.rows()[r].active == 0 || leaves <= item.first_leaf) continue;
      const bool whole = item.first_place == kNoPlace;
      if ((bound.part == Part::kItemRows || bound.part == Part::kDividedRows) && whole)
        add({r, r + 1, item.first_head * group_cols, (item.first_head + item.heads) * group_cols});
      if (bound.part == Part::kItemPlaces && !whole) {
        const uint32_t places = item.first_leaf == 0 ? 1 : std::min(leaves, item.end_leaf) - item.first_leaf;
        add({place, place + places, 0, s.bench.tensor(s.t.places).cols});
      }
    }
  }
  if (bound.part != Part::kSplitRows) return;
  uint32_t n = 0;  // rows of splits, counted through
  for (uint32_t i = 0; i < list.splits; ++i) {
    const AttentionSplit& split = list.split[i];
    for (uint64_t r = split.first_row; r < split.first_row + split.rows; ++r, ++n) {
      if (s.rows()[r].active != 0 && n % list.records == bound.share)
        add({r, r + 1, split.head * group_cols, (split.head + 1) * group_cols});
    }
  }
}

// The elements of a bound's region that belong to its part in this state, as boxes.
Footprint elements_of(const Scene& s, const Region& bound) {
  Footprint out;
  const auto add = [&](Box box) {
    box = {std::max(box.row_begin, bound.box.row_begin), std::min(box.row_end, bound.box.row_end),
           std::max(box.col_begin, bound.box.col_begin), std::min(box.col_end, bound.box.col_end)};
    if (!box.empty()) out.push_back({bound.tensor, box, bound.access, bound.operand});
  };
  constexpr uint64_t kEnd = uint64_t{1} << 60;
  if (bound.part == Part::kWhole) add(bound.box);
  if (is_divided(bound.part)) add_divided(s, bound, add);
  const PartialLayout layout{s.shape.splits, s.shape.q_heads / s.shape.kv_heads, s.shape.head_dim,
                             whole_row_tiles(s.shape.rows)};
  for (const uint32_t r : s.active_rows()) {
    const PassRow& row = s.rows()[r];
    const uint64_t token = s.block_of(row, row.position) * kKvBlockTokens + row.position % kKvBlockTokens;
    if (bound.part == Part::kActiveRows || (bound.part == Part::kLogitsRows && row_wants_logits(row)))
      add({r, uint64_t{r} + 1, 0, kEnd});
    const uint64_t share =
        bound.part == Part::kNewTokens ? s.bench.tensor(bound.tensor).cols * r / s.shape.rows : 0;
    if (bound.part == Part::kNewTokens && share >= bound.box.col_begin && share < bound.box.col_end) {
      const Box box{bound.box.row_begin, bound.box.row_end, token, token + 1};
      out.push_back({bound.tensor, box, bound.access, bound.operand});
    }
    if (bound.part != Part::kSeenLeaves) continue;
    for (uint32_t leaf = 0; leaf < leaves_for_tokens(row.position + 1); ++leaf) {
      for (uint32_t head = 0; head < s.shape.kv_heads; ++head) {
        const uint64_t at = layout.row(head, layout.split_of(row.slot, leaf), r);
        add({at, at + 1, layout.col(leaf, 0), layout.col(leaf, 0) + layout.leaf_cols()});
      }
    }
  }
  return out;
}

Footprint elements_of(const Scene& s, const Footprint& bound, bool (*wanted)(const Region&)) {
  Footprint out;
  for (const Region& r : bound) {
    if (!wanted(r)) continue;
    for (const Region& element : elements_of(s, r)) out.push_back(element);
  }
  return out;
}

// Calls fn(tensor, element, times in a, times in b) for every element.
template <class Fn>
void compare_covers(const Bench& bench, const Footprint& a, const Footprint& b, bool (*wanted)(Access),
                    Fn&& fn) {
  Cover of_a = empty_cover(bench), of_b = empty_cover(bench);
  add_to_cover(bench, a, wanted, of_a);
  add_to_cover(bench, b, wanted, of_b);
  for (size_t t = 0; t < of_a.size(); ++t) {
    for (size_t e = 0; e < of_a[t].size(); ++e) fn(t, e, of_a[t][e], of_b[t][e]);
  }
}

TEST(Footprint, OfAnyStateIsInsideThePartsOfItsBound) {
  over_random_stages(24, [](Scene& s, const Stage&, const std::vector<Instruction>& instances, Random&) {
    const StateView view = s.view();
    for (const Instruction& i : some(instances)) {
      const Footprint parts =
          elements_of(s, footprint_of(s.bench, i, nullptr), [](const Region&) { return true; });
      for (bool (*wanted)(Access) : {reads, writes}) {
        size_t outside = 0;
        compare_covers(
            s.bench, footprint_of(s.bench, i, &view), parts, wanted,
            [&](size_t, size_t, uint8_t exact, uint8_t part) { outside += exact > 0 && part == 0; });
        EXPECT_EQ(outside, 0U);
      }
    }
  });
}

// This is the basis for the proof that a reader finds its data: what is promised without a state holds in
// every state.
TEST(Footprint, WhatIsCertainlyWrittenIsWrittenInEveryState) {
  size_t promised = 0;
  over_random_stages(
      26, [&](Scene& s, const Stage& stage, const std::vector<Instruction>& instances, Random&) {
        const Memory kept = s.bench.memory;
        s.poison_outputs(stage);
        const Memory before = s.bench.memory;
        for (const Instruction& i : some(instances)) {
          s.bench.memory = before;
          const StateView view = s.view();
          s.bench.run(i);
          const Footprint certain = elements_of(s, footprint_of(s.bench, i, nullptr), certainly_writes);
          size_t left_out = 0, still_poison = 0;
          compare_covers(s.bench, certain, footprint_of(s.bench, i, &view), writes,
                         [&](size_t t, size_t e, uint8_t promise, uint8_t exact) {
                           if (promise == 0) return;
                           ++promised;
                           left_out += exact == 0;
                           if (s.bench.program.tensors[t].dtype == DType::kBytes)
                             return;  // any byte may be right
                           const size_t bytes = size_of(s.bench.program.tensors[t].dtype);
                           const auto at = s.bench.memory[t].begin() + static_cast<std::ptrdiff_t>(e * bytes);
                           still_poison += std::all_of(at, at + static_cast<std::ptrdiff_t>(bytes),
                                                       [](std::byte b) { return b == kPoison; });
                         });
          EXPECT_EQ(left_out, 0U);
          EXPECT_EQ(still_poison, 0U);
        }
        s.bench.memory = kept;
      });
  EXPECT_GT(promised, sampled(10000));
}

TEST(Footprint, InstancesOfAStageNeverWriteTheSameElement) {
  over_random_stages(30, [](Scene& s, const Stage&, const std::vector<Instruction>& instances, Random&) {
    const StateView view = s.view();
    for (const StateView* state : {static_cast<const StateView*>(nullptr), &view}) {
      Cover times = empty_cover(s.bench);
      for (const Instruction& i : instances) {
        // Shares of a deal are only known with the state.
        Footprint footprint = footprint_of(s.bench, i, state);
        std::erase_if(footprint, [](const Region& r) { return is_divided(r.part); });
        add_to_cover(s.bench, footprint, writes, times);
      }
      for (size_t t = 0; t < times.size(); ++t) {
        EXPECT_LE(*std::max_element(times[t].begin(), times[t].end()), 1) << s.bench.program.tensors[t].name;
      }
    }
  });
}

// Poisons every element that `keep` does not cover.
void poison_outside(Bench& bench, const Cover& keep) {
  for (size_t t = 0; t < keep.size(); ++t) {
    const size_t size = size_of(bench.program.tensors[t].dtype);
    for (size_t e = 0; e < keep[t].size(); ++e) {
      if (keep[t][e] == 0) std::fill_n(&bench.memory[t][e * size], size, kPoison);
    }
  }
}

// Names of the tensors in which an element that `among` covers (or does not) differs.
std::set<std::string> changed(const Bench& bench, const Cover& among, bool covered, const Memory& a,
                              const Memory& b) {
  std::set<std::string> out;
  for (size_t t = 0; t < among.size(); ++t) {
    if (a[t] == b[t]) continue;
    const size_t size = size_of(bench.program.tensors[t].dtype);
    for (size_t e = 0; e < among[t].size(); ++e) {
      if ((among[t][e] != 0) == covered && std::memcmp(&a[t][e * size], &b[t][e * size], size) != 0) {
        out.insert(bench.program.tensors[t].name);
      }
    }
  }
  return out;
}

TEST(Footprint, HasEverythingThatIsWritten) {
  over_random_stages(
      40, [](Scene& s, const Stage& stage, const std::vector<Instruction>& instances, Random&) {
        s.poison_outputs(stage);
        const Memory before = s.bench.memory;
        for (const Instruction& i : some(instances)) {
          s.bench.memory = before;
          const StateView view = s.view();
          Cover written = empty_cover(s.bench);
          add_to_cover(s.bench, footprint_of(s.bench, i, &view), writes, written);
          s.bench.run(i);
          EXPECT_THAT(changed(s.bench, written, false, before, s.bench.memory), ::testing::IsEmpty());
        }
        s.bench.memory = before;
      });
}

TEST(Footprint, HasEverythingThatMattersToTheResult) {
  over_random_stages(
      50, [](Scene& s, const Stage& stage, const std::vector<Instruction>& instances, Random&) {
        const Memory kept = s.bench.memory;
        s.poison_outputs(stage);
        const Memory before = s.bench.memory;
        for (const Instruction& i : some(instances)) {
          s.bench.memory = before;
          const StateView view = s.view();
          Cover read = empty_cover(s.bench), written = empty_cover(s.bench);
          add_to_cover(s.bench, footprint_of(s.bench, i, &view), reads, read);
          add_to_cover(s.bench, footprint_of(s.bench, i, &view), writes, written);
          s.bench.run(i);
          const Memory expected = s.bench.memory;
          s.bench.memory = before;
          poison_outside(s.bench, read);
          s.bench.run(i);
          EXPECT_THAT(changed(s.bench, written, true, expected, s.bench.memory), ::testing::IsEmpty());
        }
        s.bench.memory = kept;
      });
}

// vm/host/handler.h: `load` reads every input except the weights; `compute` reads only these and its local.
// So memory may change between the roles, except what the instruction both reads and writes when it stores.
TEST(Roles, LoadTakesAllInputsButTheWeights) {
  over_random_stages(
      60, [](Scene& s, const Stage& stage, const std::vector<Instruction>& instances, Random&) {
        const Memory kept = s.bench.memory;
        s.poison_outputs(stage);
        const Memory before = s.bench.memory;
        for (const Instruction& i : some(instances)) {
          s.bench.memory = before;
          const StateView view = s.view();
          Cover written = empty_cover(s.bench);
          add_to_cover(s.bench, footprint_of(s.bench, i, &view), writes, written);
          s.bench.run(i);
          const Memory expected = s.bench.memory;
          s.bench.memory = before;
          const auto poison_all_but_weights = [&] {
            for (uint32_t t = 0; t < before.size(); ++t) {
              if (!is_immutable(s.bench.program.tensors[t].kind)) s.bench.poison({t});
            }
          };
          const auto restore_outputs = [&] {
            for (const Region& r : footprint_of(s.bench, i, nullptr)) {
              const uint32_t t = r.tensor.index;
              if (writes(r.access)) std::copy(before[t].begin(), before[t].end(), s.bench.memory[t].begin());
            }
          };
          s.bench.run(i, poison_all_but_weights, restore_outputs);
          EXPECT_THAT(changed(s.bench, written, true, expected, s.bench.memory), ::testing::IsEmpty());
        }
        s.bench.memory = kept;
      });
}

// One valid record of each opcode.
std::vector<Instruction> one_of_each(const Scene& s) {
  std::vector<Instruction> out;
  for (const Stage& stage : s.stages()) out.push_back(stage.make(0, 1));
  return out;
}

TEST(CheckInstruction, RefusesOpcodesThatDoNotExist) {
  Random random(70);
  const Scene s(random_shape(random, kSmall), random);
  Instruction i = one_of_each(s)[0];
  for (const uint16_t opcode : {kNumOpcodes, uint16_t{0xFFFF}}) {
    i.opcode = opcode;
    EXPECT_THAT(check_instruction(s.bench.program, i), StartsWith("opcode: " + std::to_string(opcode)));
  }
}

// A refusal is one line: the instruction, the operand and the value.
void expect_refusal(const Program& program, const Instruction& i, const std::string& operand) {
  const std::string line = check_instruction(program, i);
  EXPECT_THAT(line, StartsWith(std::string(op_name(i.opcode)) + ": " + operand + ":"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

bool is_product_input(Image image) {
  return image == Image::kActivation || image == Image::kSlabs;
}

// Returns whether an instruction may read or write this type instead of the tensor's own, in programs whose
// other tensors fit.
bool is_other_format(const Tensor& tensor, DType dtype) {
  return (tensor.image == Image::kPages && has_codes(dtype)) ||
         (is_product_input(tensor.image) && !has_input_scales(tensor) && dtype == DType::kF16);
}

// A product's input and weights fit each other; what an instruction writes for a product is that product's.
void expect_formats_that_fit(const Program& program, const Instruction& i, const FieldInfo& field) {
  const std::string line = check_instruction(program, i);
  if (std::string_view(field.unit).starts_with("out")) {
    EXPECT_EQ(line, "");
    return;
  }
  EXPECT_THAT(line, StartsWith(std::string(op_name(i.opcode)) + ": "));
  EXPECT_THAT(line, ::testing::HasSubstr(", expected "));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(CheckInstruction, RefusesTensorsThatDoNotExistOrAreOfAnotherKind) {
  for (uint64_t seed = 0; seed < kScenes; ++seed) {
    Random random(80 + seed);
    Scene s(random_shape(random, kSmall), random);
    Program& program = s.bench.program;
    const auto count = static_cast<uint32_t>(program.tensors.size());
    for (const Instruction& i : one_of_each(s)) {
      ASSERT_EQ(check_instruction(program, i), "");
      for (const FieldInfo& f : tensor_fields(i)) {
        SCOPED_TRACE(std::string(op_name(i.opcode)) + "." + f.name);
        for (const uint32_t id : {count, count + 1, 0x80000000U, 0xFFFFFFFFU}) {
          expect_refusal(program, with_field(i, f, id), f.name);
        }
        const Tensor right = program.tensors[field_value<uint32_t>(i, f)];
        const auto refuse_altered = [&](auto&& alter) {
          program.tensors.push_back(right);
          alter(program.tensors.back());
          expect_refusal(program, with_field(i, f, count), f.name);
          program.tensors.pop_back();
        };
        refuse_altered([](Tensor& t) { t.rows += 1; });
        refuse_altered([](Tensor& t) { t.rows -= 1; });
        refuse_altered([](Tensor& t) { t.cols += 1; });
        refuse_altered([](Tensor& t) { t.cols -= 1; });
        for (int d = 0; d < kNumDTypes; ++d) {
          const auto dtype = static_cast<DType>(d);
          if (dtype == right.dtype) continue;
          if (f.kind != FieldKind::kPeers && is_other_format(right, dtype)) {
            program.tensors.push_back(right);
            program.tensors.back().dtype = dtype;
            expect_formats_that_fit(program, with_field(i, f, count), f);
            program.tensors.pop_back();
            continue;
          }
          refuse_altered([&](Tensor& t) { t.dtype = dtype; });
        }
        for (int image = 0; image < kNumImages; ++image) {
          if (static_cast<Image>(image) == right.image) continue;
          refuse_altered([&](Tensor& t) { t.image = static_cast<Image>(image); });
        }
        for (int k = 0; k < kNumTensorKinds; ++k) {
          if (static_cast<TensorKind>(k) == right.kind) continue;
          refuse_altered([&](Tensor& t) { t.kind = static_cast<TensorKind>(k); });
        }
      }
    }
  }
}

bool is_count(const std::string& name) {
  return name.starts_with("num_") && name != "num_parts";
}
bool is_index(const std::string& name) {
  return name.starts_with("first_") || name == "kv_head" || name == "split" || name == "record" ||
         name == "rank" || name == "part" || name == "weights_unit";
}

bool is_flag(const std::string& name) {
  return name == "logits_only" || name == "begins";
}

TEST(CheckInstruction, RefusesNumbersOutOfRange) {
  constexpr uint32_t kTooLarge = (1U << 24) + 16;
  for (uint64_t seed = 0; seed < kScenes; ++seed) {
    Random random(90 + seed);
    ShapeLimits vectors = kSmall;  // in programs of tiles, units also come in groups
    vectors.tiles = false;
    Scene s(random_shape(random, vectors), random);
    for (const Stage& stage : s.stages()) {
      const Instruction i = stage.make(0, 1);
      const std::string op = std::string(op_name(i.opcode));
      for (const FieldInfo& f : op_info(i.opcode).fields) {
        if (f.kind != FieldKind::kUnsigned) continue;
        SCOPED_TRACE(op + "." + f.name);
        const std::string name = f.name;
        std::vector<uint32_t> bad = {kTooLarge, 0x80000000U, 0xFFFFFFFFU};
        if (!is_index(name) && !is_flag(name)) bad.push_back(0);
        if (is_flag(name)) bad.push_back(2);
        if (name == "hidden" || name == "intermediate" || name == "in_cols" || name == "out_cols")
          bad.push_back(8);
        if (name == "parts") bad.push_back(2);  // of a sum in a program of vectors
        if (name == "num_parts") bad.insert(bad.end(), {1, kMaxColumnParts + 1});
        if (name == "split") bad.push_back(s.shape.splits);
        const uint32_t records = i.opcode == static_cast<uint16_t>(Opcode::kSample) ? s.shape.logit_rows()
                                 : i.opcode == static_cast<uint16_t>(Opcode::kPool)
                                     ? s.shape.hidden / kUnitRows
                                     : s.shape.records;
        if (name == "record" || name == "records") bad.push_back(records + 1);
        if (name == "kv_head") bad.push_back(s.shape.kv_heads);
        const uint32_t all = name.ends_with("_row") || name.ends_with("_rows") ? s.shape.rows : stage.units;
        if (name.starts_with("first_")) bad.push_back(all);
        if (is_count(name)) bad.push_back(all + 1);
        for (const uint32_t value : bad) {
          const std::string line = check_instruction(s.bench.program, with_field(i, f, value));
          EXPECT_NE(line, "") << value;
          // The error line gives a count as a part of its range.
          if (!is_count(name)) {
            EXPECT_THAT(line, StartsWith(op + ": " + name + ": ")) << value;
          } else {
            EXPECT_THAT(line, StartsWith(op + ": first_")) << value;
          }
        }
      }
    }
  }
}

TEST(CheckInstruction, RefusesRangesThatWrapAround) {
  Random random(100);
  Scene s(random_shape(random, kSmall), random);
  for (const Stage& stage : s.stages()) {
    if (stage.most_per_part == 1) continue;
    for (const uint32_t first : {1U, 8U, 0xFFFFFFF8U}) {
      EXPECT_THAT(check_instruction(s.bench.program, stage.make(first, 0U - first)),
                  StartsWith(stage.name() + ": first_"));
    }
  }
}

// Kernels of larger tiles lack the registers for this.
TEST(CheckInstruction, RefusesWideTilesOfPassesOfManyRows) {
  Random random(105);
  Shape shape = random_shape(random, kSmall);
  shape.hidden = 64;
  shape.intermediate = 256;
  shape.tile_rows = 64;
  const auto refusal = [&](uint32_t rows, uint32_t units) {
    shape.rows = rows;
    Scene s(shape, random);
    auto op = s.stage(Opcode::kGateUpSilu).make(0, 1).as<GateUpSilu>();
    op.num_units = units;
    return check_instruction(s.bench.program, make_instruction(op));
  };
  EXPECT_EQ(refusal(64, 16), "");
  EXPECT_EQ(refusal(64, 17), "gate_up_silu: num_units: 17, expected up to 16 in a tile");
  EXPECT_EQ(refusal(65, 8), "");
  EXPECT_EQ(refusal(65, 9),
            "gate_up_silu: num_units: 9, expected up to 8 in a tile of passes of more than 64 rows");
}

TEST(Kernels, RunWideTilesWhereTheyHaveCodeForThem) {
  Random random(106);
  Shape shape = random_shape(random, kSmall);
  shape.hidden = 64;
  shape.intermediate = 256;
  shape.tile_rows = shape.rows = 64;
  Scene s(shape, random);
  auto op = s.stage(Opcode::kGateUpSilu).make(0, 1).as<GateUpSilu>();
  Program program = s.bench.program;
  const auto runs_with = [&](uint32_t units, const KernelTraits& kernel) {
    op.num_units = units;
    program.heads.head_dim = kernel.head_dim;
    program.instructions = {make_instruction(op)};
    return runs(kernel, program);
  };
  EXPECT_TRUE(runs_with(8, kernel_traits::Tiles64Heads64));
  EXPECT_FALSE(runs_with(16, kernel_traits::Tiles64Heads64));
  EXPECT_TRUE(runs_with(16, kernel_traits::Tiles64Heads128));
  EXPECT_FALSE(runs_with(16, kernel_traits::Tiles256Heads128));
}

// Kernels for passes that only generate have narrow tiles of attention and no others.
TEST(Kernels, OfSingleRowsRunProgramsOfFewQueryHeadsAKvHead) {
  Random random(107);
  Scene s(random_shape(random, kSmall), random);
  Program program = s.bench.program;
  program.limits.rows = 64;
  program.order = Order::kTile;
  const auto runs_with = [&](uint32_t group_heads, const KernelTraits& kernel) {
    program.heads = {.head_dim = 128, .q_heads = 2 * group_heads, .kv_heads = 2};
    program.instructions = {make_instruction(PlannedAttention{})};
    return runs(kernel, program);
  };
  for (const uint32_t group_heads : {1U, 4U, 8U}) {
    EXPECT_TRUE(runs_with(group_heads, kernel_traits::Decode64Heads128)) << group_heads;
    EXPECT_TRUE(runs_with(group_heads, kernel_traits::Decode256Heads128)) << group_heads;
  }
  EXPECT_FALSE(runs_with(9, kernel_traits::Decode64Heads128));
  EXPECT_TRUE(runs_with(9, kernel_traits::Tiles64Heads128));
}

// Kernels in tile order hold all of a row's inputs in shared memory.
TEST(Kernels, InTileOrderRunProgramsWhoseRowsHaveRoom) {
  Random random(108);
  Shape shape = random_shape(random, kSmall);
  shape.hidden = 64;
  shape.rows = 1;
  shape.tile_order = true;
  Scene s(shape, random);
  Program program = s.bench.program;
  const auto runs_with = [&](uint32_t cols, const KernelTraits& kernel) {
    program.heads.head_dim = kernel.head_dim;
    auto op = s.stage(Opcode::kMatvecResidual).make(0, 1).as<MatvecResidual>();
    op.in_cols = cols;
    program.instructions = {make_instruction(op)};
    return runs(kernel, program);
  };
  constexpr uint32_t kMost = kernel_traits::TileOrderHeads64.activation_rows * page_image::kPanelCols;
  EXPECT_TRUE(runs_with(kMost, kernel_traits::TileOrderHeads64));
  EXPECT_FALSE(runs_with(kMost + 1, kernel_traits::TileOrderHeads64));
  EXPECT_TRUE(runs_with(kMost + 1, kernel_traits::TileOrderHeads128));
  EXPECT_FALSE(runs_with(kMost, kernel_traits::OneRowHeads64)) << "adds up in another order";
  EXPECT_FALSE(runs_with(kMost, kernel_traits::Decode64Heads64));
}

// For every program, the kernel with the most rows can run all passes.
TEST(Kernels, OfSingleRowsComeBeforeThoseOfAllPasses) {
  const KernelTraits* before = nullptr;
  for (const KernelTraits& kernel : kernels()) {
    if (before != nullptr && before->single_rows) {
      EXPECT_TRUE(kernel.single_rows || kernel.rows >= before->rows) << kernel.name;
    }
    before = &kernel;
  }
  EXPECT_FALSE(before->single_rows);
  EXPECT_FALSE(widest_kernel(1).single_rows);
}

TEST(CheckInstruction, RefusesAttentionInProgramsWithoutHeads) {
  Random random(110);
  Scene s(random_shape(random, kSmall), random);
  Program program = s.bench.program;
  program.heads = {};
  for (const Opcode opcode : {Opcode::kQkvRope, Opcode::kAttention, Opcode::kAttentionMerge,
                              Opcode::kPlannedAttention, Opcode::kPlannedMerge, Opcode::kQkvProject,
                              Opcode::kQkNormRope, Opcode::kProjectPart, Opcode::kRopeParts}) {
    const Stage stage = s.stage(opcode);
    EXPECT_EQ(check_instruction(program, stage.make(0, 1)), stage.name() + ": heads: the program has none");
  }
}

// The image of a product's input, and the columns of a sum of squares, follow from the program's order.
TEST(CheckInstruction, RefusesTensorsOfAnotherOrder) {
  Random random(115);
  Shape shape = random_shape(random, kSmall);
  shape.hidden = shape.intermediate = 128;
  shape.tile_rows = 0;
  shape.rows = 1;
  Scene s(shape, random);
  Program program = s.bench.program;
  for (const Opcode opcode : {Opcode::kAttentionMerge, Opcode::kMatvecPart, Opcode::kGateUpSilu}) {
    const Stage stage = s.stage(opcode);
    for (const Order order : {Order::kTile, Order::kVectorInTileOrder}) {
      program.order = order;
      EXPECT_THAT(check_instruction(program, stage.make(0, 1)), HasSubstr("expected")) << stage.name();
    }
    program.order = Order::kVector;
    EXPECT_EQ(check_instruction(program, stage.make(0, 1)), "");
  }
}

TEST(CheckInstruction, RefusesFactorsThatAreNotNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(120);
  Scene s(random_shape(random, kSmall), random);
  size_t factors = 0;
  for (const Instruction& i : one_of_each(s)) {
    for (const FieldInfo& f : op_info(i.opcode).fields) {
      if (f.kind != FieldKind::kFloat) continue;
      for (const float value : {kNan, kInfinity, -kInfinity, -1e-5F}) {
        expect_refusal(s.bench.program, with_field(i, f, value), f.name);
      }
      ++factors;
    }
  }
  EXPECT_GE(factors, 4U);  // three epsilons and a scale at least
}

// A valid record with one or two numbers changed, usually to a close value.
Instruction mutated(Instruction i, uint32_t tensors, Random& random) {
  const std::vector<FieldInfo>& fields = op_info(i.opcode).fields;
  for (uint32_t changes = random.between(1, 2); changes > 0; --changes) {
    const FieldInfo& f = fields[random.below(static_cast<uint32_t>(fields.size()))];
    if (f.kind == FieldKind::kFloat) continue;
    const uint32_t old = field_value<uint32_t>(i, f);
    const std::vector<uint32_t> values = {
        random.below(tensors + 1),           old + 1, old - 1, 2 * old, old / 2, 0, 0U - old,
        static_cast<uint32_t>(random.bits())};
    i = with_field(i, f, random.pick(values));
  }
  return i;
}

// Any record that passes the check stays inside the tensors that it names.
TEST(CheckInstruction, LetsNoRandomRecordOutOfItsTensors) {
  constexpr int kRecords = 10000;
  size_t passed = 0, refused = 0;
  for (uint64_t seed = 0; seed < kScenes; ++seed) {
    Random random(130 + seed);
    Scene s(random_shape(random, kSmall), random);
    std::vector<Instruction> valid;
    for (const Stage& stage : s.stages()) {
      for (const Instruction& i : split(stage, random)) valid.push_back(i);
    }
    for (int n = 0; n < kRecords; ++n) {
      const Instruction i =
          mutated(random.pick(valid), static_cast<uint32_t>(s.bench.program.tensors.size()), random);
      if (!check_instruction(s.bench.program, i).empty()) {
        ++refused;
        continue;
      }
      ++passed;
      for (const Region& r : footprint_of(s.bench, i, nullptr)) {
        ASSERT_LT(r.tensor.index, s.bench.program.tensors.size());
        const Tensor& t = s.bench.tensor(r.tensor);
        EXPECT_TRUE((Box{0, t.rows, 0, t.cols}.contains(r.box))) << op_name(i.opcode) << ": " << t.name;
      }
    }
  }
  EXPECT_GT(passed, 1000U);
  EXPECT_GT(refused, 10000U);
}

}  // namespace
}  // namespace serval::testing
