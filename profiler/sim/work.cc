#include "profiler/sim/work.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "instructions/isa.h"
#include "instructions/planned_attention/plan_launch.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/page_image.h"
#include "vm/layout/slab_image.h"

namespace serval::sim {
namespace {

uint64_t area(const Box& box) {
  return (box.row_end - box.row_begin) * (box.col_end - box.col_begin);
}

// Bytes that the regions cover. Where the columns of two regions overlap, they count once: rows of one
// sequence read the same keys.
uint64_t covered_bytes(const Program& program, Footprint& regions) {
  const auto key = [](const Region& r) {
    return std::tuple(r.tensor.index, r.box.row_begin, r.box.row_end, r.box.col_begin, r.box.col_end);
  };
  std::sort(regions.begin(), regions.end(),
            [&](const Region& a, const Region& b) { return key(a) < key(b); });
  uint64_t bytes = 0;
  const Region* before = nullptr;
  uint64_t covered_to = 0;
  for (const Region& r : regions) {
    const bool same_rows = before != nullptr && before->tensor == r.tensor &&
                           before->box.row_begin == r.box.row_begin && before->box.row_end == r.box.row_end;
    Box box = r.box;
    if (same_rows) box.col_begin = std::max(box.col_begin, covered_to);
    covered_to = same_rows ? std::max(covered_to, r.box.col_end) : r.box.col_end;
    before = &r;
    if (!box.empty()) bytes += area(box) * size_of(program.tensors[r.tensor.index].dtype);
  }
  return bytes;
}

// A footprint, added up by kind of access.
struct Touched {
  uint64_t weight_rows = 0;      // of all matrices
  uint64_t weight_elements = 0;  // of all matrices
  uint32_t cols = 0;     // columns of bf16 that take the bytes of a row of these matrices, or of the part
  uint64_t written = 0;  // elements
  uint64_t written_bytes = 0;
  Footprint reads;  // activations and KV cache that are read but not also written
  bool reads_cache = false;
};

// A page of codes has more columns than a page of bf16 of as many bytes. 4-bit integers have four bytes more
// for each group.
uint32_t columns_in_bf16(DType dtype, uint64_t cols) {
  const uint64_t group = group_of(dtype);
  const uint64_t bits = cols * bits_of(dtype) + (group > 0 ? cols / group * 32 : 0);
  return static_cast<uint32_t>(bits / bits_of(DType::kBF16));
}

Touched touched_by(const Program& program, const Footprint& footprint) {
  Touched t;
  for (const Region& region : footprint) {
    const Tensor& tensor = program.tensors[region.tensor.index];
    if (writes(region.access)) {
      t.written += area(region.box);
      t.written_bytes += area(region.box) * size_of(tensor.dtype);
    } else if (tensor.image == Image::kPages) {
      t.weight_rows += region.box.row_end - region.box.row_begin;
      t.weight_elements += area(region.box);
      t.cols = columns_in_bf16(tensor.dtype, region.box.col_end - region.box.col_begin);
    } else if (tensor.kind == TensorKind::kActivation || tensor.kind == TensorKind::kKvCache) {
      t.reads.push_back(region);
      t.reads_cache |= tensor.kind == TensorKind::kKvCache;
    }
  }
  return t;
}

// A unit has 8 rows of each matrix; there are as many matrices as one result needs. Products read
// activations of 16 bits; the results are multiplied with fp32 ones.
Work stream_of(const Program& program, const Touched& t, uint32_t active_rows) {
  Work work{.kind = Work::Kind::kStream};
  const uint64_t results = std::max<uint64_t>(1, t.written / std::max(1u, active_rows));
  work.matrices = static_cast<uint32_t>(std::max<uint64_t>(1, (t.weight_rows + results / 2) / results));
  const uint64_t unit_rows = uint64_t{kUnitRows} * work.matrices;
  work.units = static_cast<uint32_t>((t.weight_rows + unit_rows - 1) / unit_rows);
  work.cols = t.cols;
  work.panels = page_image::panels(t.cols);
  Footprint inputs, scales;
  for (const Region& region : t.reads)
    (program.tensors[region.tensor.index].dtype == DType::kF32 ? scales : inputs).push_back(region);
  work.input_bytes = covered_bytes(program, inputs);
  work.scale_bytes = covered_bytes(program, scales);
  return work;
}

// The stream in tile order. If parts of the columns differ in length, each counts as their mean.
Work chains_of(const Program& program, const Instruction& instruction, const Touched& t,
               uint32_t active_rows) {
  Work work = stream_of(program, t, active_rows);
  const uint32_t parts = parts_of_columns(instruction);
  work.chains = work.matrices * parts;
  work.units *= work.chains;
  work.matrices = 1;
  work.cols = (work.cols + parts - 1) / parts;
  work.panels = page_image::panels(work.cols);
  return work;
}

// Tiles of the same weights are neighbours in the queues: the tile of the pass's first rows reads the weights
// from HBM, the others from L2.
Work tile_of(const Program& program, const Instruction& instruction, const Touched& t) {
  uint64_t first_row = program.limits.rows, rows = 0;
  for (const Region& region : t.reads) {
    first_row = std::min(first_row, region.box.row_begin);
    if (program.tensors[region.tensor.index].dtype == DType::kBF16) rows += area(region.box) / t.cols;
  }
  Work work = stream_of(program, t, static_cast<uint32_t>(rows));
  work.kind = Work::Kind::kTile;
  work.rows = static_cast<uint32_t>(rows);
  constexpr uint32_t kSlabCols = slab_image::kRowBytes / size_of(DType::kBF16);
  work.slabs = (t.cols + kSlabCols - 1) / kSlabCols;
  work.parts = parts_of_columns(instruction);
  work.written_bytes = t.written_bytes;
  work.from_hbm = work.starts_early = first_row == 0;
  work.bytes = work.from_hbm ? t.weight_elements * size_of(DType::kBF16) : 0;
  return work;
}

// An SM's share of the keys and values of the pass's sequences: planned attention is divided evenly.
uint64_t share_of_cache(const Program& program, const Touched& t, uint64_t tokens) {
  std::vector<uint32_t> caches;
  for (const Region& region : t.reads) {
    if (program.tensors[region.tensor.index].kind == TensorKind::kKvCache)
      caches.push_back(region.tensor.index);
  }
  std::ranges::sort(caches);
  uint64_t bytes = 0;
  const auto end = std::unique(caches.begin(), caches.end());
  for (auto cache = caches.begin(); cache != end; ++cache) {
    const Tensor& tensor = program.tensors[*cache];
    bytes += tensor.rows * tokens * size_of(tensor.dtype);
  }
  return bytes / program.machine.sms;
}

// The work of an instruction, without its pushes.
Work own_work(const Program& program, const Instruction& instruction, const Pass& pass, Touched& t) {
  const Cost cost = op_info(instruction.opcode)
                        .cost(instruction, program, program.tensors,
                              {.rows = pass.active_rows(), .context_tokens = pass.mean_context_tokens()});
  // Weights of which every element is used are streamed. Of a table, only some rows are looked up.
  if (t.weight_elements > 0 && cost.operations >= t.weight_elements) {
    switch (program.order) {
      case Order::kTile:
        return tile_of(program, instruction, t);
      case Order::kVectorInTileOrder:
        return chains_of(program, instruction, t, pass.active_rows());
      case Order::kVector:
        return stream_of(program, t, pass.active_rows());
    }
  }
  Work work{.kind = Work::Kind::kGroup};
  work.operations = cost.operations;
  work.bytes = t.weight_elements > 0 ? cost.bytes : covered_bytes(program, t.reads);
  if (adds_as_tiles(program.order) && t.reads_cache)
    work.bytes = std::min(work.bytes, share_of_cache(program, t, pass.tokens()));
  work.from_hbm = t.weight_elements > 0 || t.reads_cache;
  work.starts_early = t.reads_cache && work.bytes > 0;
  return work;
}

uint64_t pushed_bytes(const Program& program, const Instruction& instruction, const Footprint& footprint) {
  if (program.num_devices == 1) return 0;
  const uint32_t device = device_of(program.tensors, instruction);
  uint64_t bytes = 0;
  for (const Region& region : footprint) {
    const Tensor& tensor = program.tensors[region.tensor.index];
    if (writes(region.access) && tensor.device != device) bytes += area(region.box) * size_of(tensor.dtype);
  }
  return bytes;
}

}  // namespace

BlockTable::BlockTable(uint32_t sequences, uint32_t tokens)
    : blocks_per_sequence_(blocks_for_tokens(tokens)), blocks_(size_t{sequences} * blocks_per_sequence_) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
}

void Pass::plan(const Program& program) {
  const std::optional<AttentionPlanShape> shape = attention_plan_shape(program);
  if (!shape) return;
  attention_.resize(attention_list_bytes(shape->rows) / sizeof(uint32_t));
  plan_attention(
      *shape, rows_, [](const PassRow& row) { return row.position; },
      *reinterpret_cast<AttentionList*>(attention_.data()));
}

StateView Pass::view(const BlockTable& blocks) const {
  StateView view = blocks.view(rows_.data());
  if (!attention_.empty()) view.attention = reinterpret_cast<const AttentionList*>(attention_.data());
  return view;
}

uint32_t Pass::active_rows() const {
  return static_cast<uint32_t>(std::count_if(rows_.begin(), rows_.end(), row_is_active));
}

uint32_t Pass::mean_context_tokens() const {
  uint64_t sum = 0;
  for (const PassRow& row : rows_) sum += row_is_active(row) ? row.position : 0;
  return static_cast<uint32_t>(sum / std::max(1u, active_rows()));
}

uint64_t Pass::tokens() const {
  std::map<uint32_t, uint64_t> of_slot;
  for (const PassRow& row : rows_) {
    if (row_is_active(row)) of_slot[row.slot] = std::max<uint64_t>(of_slot[row.slot], row.position + 1);
  }
  uint64_t sum = 0;
  for (const auto& [slot, tokens] : of_slot) sum += tokens;
  return sum;
}

std::vector<PassRow> Pass::next_rows(uint32_t max_context) const {
  std::vector<PassRow> next = rows_;
  for (PassRow& row : next) {
    const bool goes_on = row_wants_logits(row) && row.position + 1 < max_context;
    row.active = goes_on ? 1 : 0;
    ++row.position;
  }
  return next;
}

uint32_t Work::page_bytes(uint32_t panel) const {
  return page_image::page_bytes(cols, panel);
}

bool Work::whole_page(uint32_t panel) const {
  return page_image::half_cols(cols, panel) == page_image::kHalfCols;
}

Work work_of(const Program& program, const Instruction& instruction, const Pass& pass,
             const BlockTable& blocks) {
  const StateView view = pass.view(blocks);
  Footprint footprint;
  op_info(instruction.opcode).footprint(instruction, program, &view, footprint);
  Touched t = touched_by(program, footprint);
  if (t.written == 0) return {};
  Work work = own_work(program, instruction, pass, t);
  work.pushed_bytes = pushed_bytes(program, instruction, footprint);
  return work;
}

}  // namespace serval::sim
