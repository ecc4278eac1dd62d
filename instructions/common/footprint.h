// Helpers for footprints: the boxes of tensors that an instruction touches.
#pragma once

#include <cstdint>

#include "vm/layout/kv_cache.h"
#include "vm/program_shape.h"
#include "vm/reflect.h"
#include "vm/region.h"
#include "vm/state/view.h"

namespace serval {

// The rows of the pass that an instruction computes.
enum class RowSet : uint8_t {
  kActive,      // all active rows
  kWantLogits,  // active rows that want logits
};
constexpr bool contains(RowSet set, const PassRow& row) {
  return set == RowSet::kActive ? row_is_active(row) : row_wants_logits(row);
}
constexpr Part part_of(RowSet set) {
  return set == RowSet::kActive ? Part::kActiveRows : Part::kLogitsRows;
}
// The rows that an instruction computes: all active ones, or with logits_only those that want logits.
constexpr RowSet computed_rows(bool logits_only) {
  return logits_only ? RowSet::kWantLogits : RowSet::kActive;
}

// The instance's rows of the pass: first_row and num_rows if it has these operands, otherwise all.
struct RowRange {
  uint32_t begin, end;
};
template <class Op>
constexpr RowRange row_range(const Op& op, const ProgramShape& shape) {
  if constexpr (requires { op.num_rows; })
    return {op.first_row, op.first_row + op.num_rows};
  else
    return {0, shape.limits.rows};
}

// Calls fn(begin, end) for each run of neighbouring rows of the set in the range; without a state, for the
// whole range.
template <class Fn>
void for_row_runs(const StateView* state, RowRange range, RowSet set, Fn&& fn) {
  if (state == nullptr) {
    fn(uint64_t{range.begin}, uint64_t{range.end});
    return;
  }
  for (uint32_t begin = range.begin; begin < range.end; ++begin) {
    if (!contains(set, state->rows[begin])) continue;
    uint32_t end = begin + 1;
    while (end < range.end && contains(set, state->rows[end])) ++end;
    fn(uint64_t{begin}, uint64_t{end});
    begin = end;
  }
}

// Builds a footprint, with both bounds of each access (vm/region.h). `write` and `read_write` promise that
// the part is written in every state; `may_write` and `may_read_write` are for boxes that are written only in
// some states. Parts apply only without a state: with a state, boxes are exact.
template <class Op>
class FootprintBuilder {
 public:
  FootprintBuilder(const Op& op, const ProgramShape& shape, const StateView* state, Footprint& out)
      : op_(op), shape_(shape), state_(state), out_(out) {}
  const ProgramShape& shape() const { return shape_; }

  template <auto Member>
  void read(Box box, Part part = Part::kWhole, uint32_t layout = 0) {
    add<Member>(box, Access::kRead, false, part, layout);
  }
  template <auto Member>
  void write(Box box, Part part = Part::kWhole, uint32_t layout = 0) {
    add<Member>(box, Access::kWrite, true, part, layout);
  }
  // Writes the share of one of `records` records among which a part is divided.
  template <auto Member>
  void write_share(Box box, Part part, uint32_t records, uint32_t share) {
    add<Member>(box, Access::kWrite, true, part, records, share);
  }
  template <auto Member>
  void read_write(Box box, Part part = Part::kWhole) {
    add<Member>(box, Access::kReadWrite, true, part);
  }
  template <auto Member>
  void may_write(Box box) {
    add<Member>(box, Access::kWrite, false, Part::kWhole);
  }
  template <auto Member>
  void may_read_write(Box box) {
    add<Member>(box, Access::kReadWrite, false, Part::kWhole);
  }

  // Columns [col_begin, col_end) of the instance's rows of a [max_rows, …] tensor.
  template <auto Member>
  void read_rows(RowSet rows, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(rows, Access::kRead, col_begin, col_end);
  }
  // Rows in `range` instead of the instance's.
  template <auto Member>
  void read_rows(RowRange range, RowSet rows, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(range, rows, Access::kRead, col_begin, col_end);
  }
  template <auto Member>
  void write_rows(RowSet rows, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(rows, Access::kWrite, col_begin, col_end);
  }
  template <auto Member>
  void write_rows(RowRange range, RowSet rows, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(range, rows, Access::kWrite, col_begin, col_end);
  }
  template <auto Member>
  void read_write_rows(RowSet rows, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(rows, Access::kReadWrite, col_begin, col_end);
  }
  // Columns of the instance's rows of the PeerTensors on `device`.
  template <auto Member>
  void push_rows(uint32_t device, RowSet rows, uint64_t col_begin, uint64_t col_end) {
    for_row_runs(state_, row_range(op_, shape_), rows, [&](uint64_t begin, uint64_t end) {
      add_to<Member>((op_.*Member).on(device), {begin, end, col_begin, col_end}, Access::kWrite, true,
                     part_of(rows));
    });
  }
  // The table of rows, which every instruction reads.
  template <auto Member>
  void pass_rows() {
    read<Member>({0, shape_.limits.rows, 0, sizeof(PassRow)});
  }

 private:
  template <auto Member>
  void add_rows(RowSet rows, Access access, uint64_t col_begin, uint64_t col_end) {
    add_rows<Member>(row_range(op_, shape_), rows, access, col_begin, col_end);
  }
  template <auto Member>
  void add_rows(RowRange range, RowSet rows, Access access, uint64_t col_begin, uint64_t col_end) {
    for_row_runs(state_, range, rows, [&](uint64_t begin, uint64_t end) {
      add<Member>({begin, end, col_begin, col_end}, access, writes(access), part_of(rows));
    });
  }
  template <auto Member>
  void add(Box box, Access access, bool certain, Part part, uint32_t layout = 0, uint32_t share = 0) {
    add_to<Member>(op_.*Member, box, access, certain, part, layout, share);
  }
  template <auto Member>
  void add_to(TensorId tensor, Box box, Access access, bool certain, Part part, uint32_t layout = 0,
              uint32_t share = 0) {
    if (box.empty()) return;
    const bool exact = state_ != nullptr;
    out_.push_back({tensor, box, access, operand_index<Member>(), exact ? Part::kWhole : part, certain,
                    exact ? 0 : layout, exact ? 0 : share});
  }

  const Op& op_;
  const ProgramShape& shape_;
  const StateView* state_;
  Footprint& out_;
};

}  // namespace serval
