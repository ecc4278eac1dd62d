#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/qkv_project/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;       // [rows, hidden], weighted
  std::vector<float> scales;  // [rows]
  std::vector<float> y;       // [rows, num_units × 8]
};

void load(const QkvProject& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kActive, l.rows);
  load_weighted_rows(m, op, l.rows, l.x, l.scales);
}

void compute(const QkvProject& op, const HostMemory& m, Local& l) {
  const size_t count = size_t{op.num_units} * kUnitRows;
  l.y.resize(l.rows.size() * count);
  for (uint32_t n = 0; n < op.num_units; ++n) {
    const WeightUnit unit = weight_unit(op, m.shape(), op.first_unit + n);
    const TensorId weights = op.*QkvProject::kWeights[unit.tensor];
    multiply_weights(m, all_columns(weights, size_t{unit.index} * kUnitRows, kUnitRows, op.hidden),
                     l.x.data(), l.rows.size(), l.y.data() + size_t{n} * kUnitRows, count);
  }
  scale_rows(l.scales, l.y);
}

void store(const QkvProject& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t count = size_t{op.num_units} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.y.data() + r * count;
    std::copy(from, from + count,
              m.data<float>(op.projected) + size_t{l.rows[r].index} * qkv_cols(heads) +
                  size_t{op.first_unit} * kUnitRows);
  }
}

}  // namespace

SERVAL_HOST_OP(QkvProject)

}  // namespace serval
