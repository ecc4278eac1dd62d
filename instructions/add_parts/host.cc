#include "instructions/add_parts/op.h"
#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> parts[kMaxColumnParts];  // each [rows, num_units × 8]
  std::vector<float> x;                       // [rows, num_units × 8]: the residual
};

void load(const AddParts& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  const auto copy = [&](TensorId tensor, std::vector<float>& to) {
    to.clear();
    for (const SelectedRow& r : l.rows) {
      const float* from =
          m.data<const float>(tensor) + size_t{r.index} * op.out_cols + size_t{op.first_unit} * kUnitRows;
      to.insert(to.end(), from, from + size_t{op.num_units} * kUnitRows);
    }
  };
  for (uint32_t p = 0; p < op.num_parts; ++p) copy(parts_of(op)[p], l.parts[p]);
  copy(op.residual, l.x);
}

void compute(const AddParts& op, const HostMemory&, Local& l) {
  for (size_t i = 0; i < l.x.size(); ++i) {
    for (uint32_t p = 0; p < op.num_parts; ++p) l.x[i] += l.parts[p][i];
  }
}

void store(const AddParts& op, const HostMemory& m, Local& l) {
  const size_t cols = size_t{op.num_units} * kUnitRows, first = size_t{op.first_unit} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r)
    store_residual(op, m, l.rows[r].index, op.out_cols, first, l.x.data() + r * cols, cols);
}

}  // namespace

SERVAL_HOST_OP(AddParts)

}  // namespace serval
