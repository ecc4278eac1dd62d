// Helpers to say which boxes of which tensors an instruction touches.
#pragma once

#include <cstdint>

#include "vm/kv_cache.h"
#include "vm/reflect.h"
#include "vm/region.h"
#include "vm/state.h"

namespace serval {

// Calls fn(begin, end) for each run of neighbouring rows that `wanted(row)` accepts; the whole range without
// a state.
template <class Wanted, class Fn>
void for_row_runs(const StateView* state, Wanted&& wanted, Fn&& fn) {
  if (state == nullptr) {
    fn(0, kMaxRows);
    return;
  }
  for (int begin = 0; begin < kMaxRows; ++begin) {
    if (!wanted(state->rows[begin])) continue;
    int end = begin + 1;
    while (end < kMaxRows && wanted(state->rows[end])) ++end;
    fn(begin, end);
    begin = end;
  }
}
constexpr bool row_is_active(const PassRow& row) {
  return row.active != 0;
}
constexpr bool row_wants_logits(const PassRow& row) {
  return row.active != 0 && row.wants_logits != 0;
}

// Whether an instruction computes a row, if it may leave out those of which no logits are wanted.
constexpr auto computed_rows(bool logits_only) {
  return [=](const PassRow& row) { return logits_only ? row_wants_logits(row) : row_is_active(row); };
}

template <class Op>
class FootprintBuilder {
 public:
  FootprintBuilder(const Op& op, const StateView* state, Footprint& out)
      : op_(op), state_(state), out_(out) {}

  template <auto Member>
  void read(Box box) {
    add<Member>(box, Access::kRead);
  }
  template <auto Member>
  void write(Box box) {
    add<Member>(box, Access::kWrite);
  }
  template <auto Member>
  void read_write(Box box) {
    add<Member>(box, Access::kReadWrite);
  }
  // Columns of the active rows of a [kMaxRows, …] tensor.
  template <auto Member>
  void active_rows(Access access, uint64_t col_begin, uint64_t col_end) {
    rows_where<Member>(row_is_active, access, col_begin, col_end);
  }
  template <auto Member, class Wanted>
  void rows_where(Wanted&& wanted, Access access, uint64_t col_begin, uint64_t col_end) {
    for_row_runs(state_, wanted, [&](int begin, int end) {
      add<Member>({static_cast<uint64_t>(begin), static_cast<uint64_t>(end), col_begin, col_end}, access);
    });
  }
  // The table of rows itself, which every instruction consults.
  template <auto Member>
  void pass_rows() {
    read<Member>({0, kMaxRows, 0, sizeof(PassRow)});
  }

 private:
  template <auto Member>
  void add(Box box, Access access) {
    if (!box.empty()) out_.push_back({op_.*Member, box, access, operand_index<Member>()});
  }

  const Op& op_;
  const StateView* state_;
  Footprint& out_;
};

}  // namespace serval
