// Makes the handler that the host interpreter calls from the three role functions of an instruction's
// host.cc.
#pragma once

#include <cstddef>

#include "vm/host/handler.h"
#include "vm/layout/units.h"

namespace serval {

// First column and number of columns of an instance with units of columns.
template <class Op>
size_t first_col(const Op& op) {
  return size_t{op.first_unit} * kUnitRows;
}
template <class Op>
size_t num_cols(const Op& op) {
  return size_t{op.num_units} * kUnitRows;
}

// `Local` derives from HostLocal. Load, Compute and Store take (const Op&, const HostMemory&, Local&).
template <class Op, class Local, auto Load, auto Compute, auto Store>
class HostOp : public HostHandler {
 public:
  std::unique_ptr<HostLocal> make_local() const override { return std::make_unique<Local>(); }
  void load(const Instruction& i, const HostMemory& m, HostLocal& local) const override {
    Load(i.as<Op>(), m, static_cast<Local&>(local));
  }
  void compute(const Instruction& i, const HostMemory& m, HostLocal& local) const override {
    Compute(i.as<Op>(), m, static_cast<Local&>(local));
  }
  void store(const Instruction& i, const HostMemory& m, HostLocal& local) const override {
    Store(i.as<Op>(), m, static_cast<Local&>(local));
  }
};

}  // namespace serval

// Defines the handler of `Op` from the functions load, compute and store and the struct Local in the same
// file.
#define SERVAL_HOST_OP(Op)                                        \
  const HostHandler& host_handler(const Op*) {                    \
    static const HostOp<Op, Local, load, compute, store> handler; \
    return handler;                                               \
  }
