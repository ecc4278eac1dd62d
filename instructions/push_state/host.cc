#include <algorithm>
#include <atomic>
#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/push_state/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<PassRow> rows;
  PassControl control;
};

void load(const PushState& op, const HostMemory& m, Local& l) {
  const StateLimits& limits = m.shape().limits;
  const PassRow* rows = m.data<const PassRow>(op.rows);
  l.rows.assign(rows, rows + limits.rows);
  // SMs of this rank may read last_pass at the same time, but none writes it now.
  l.control = *m.data<const PassControl>(op.control);
}

void compute(const PushState&, const HostMemory&, Local&) {}

void store(const PushState& op, const HostMemory& m, Local& l) {
  std::ranges::copy(l.rows, m.data<PassRow>(op.peer_rows));
  PassControl& control = *m.data<PassControl>(op.peer_control);
  control.passes_done = l.control.passes_done;
  control.passes_wanted = l.control.passes_wanted;
  control.stopped_by_host = l.control.stopped_by_host;
  // SMs of that rank may still be reading it at the previous pass's gate, as in `advance`.
  if (l.control.last_pass != kKeepRunning)
    std::atomic_ref(control.last_pass).store(l.control.last_pass, std::memory_order_release);
}

}  // namespace

SERVAL_HOST_OP(PushState)

}  // namespace serval
