#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/sample/op.h"
#include "instructions/sample/sampler.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  bool wanted = false;
  uint32_t position = 0;  // of the token to be drawn
  SequenceSlot slot;
  std::vector<float> logits;
  std::vector<Candidate> candidates;
  SampledToken token;
};

void load(const Sample& op, const HostMemory& m, Local& l) {
  const PassRow row = m.data<const PassRow>(op.rows)[op.row];
  l.wanted = row_wants_logits(row);
  if (!l.wanted) return;
  l.position = row.position + 1;
  l.slot = m.data<const SequenceSlot>(op.slots)[row.slot];
  const float* logits = m.data<const float>(op.logits) + size_t{op.row} * op.vocab;
  l.logits.assign(logits, logits + op.vocab);
}

void compute(const Sample&, const HostMemory&, Local& l) {
  if (l.wanted) l.token = sample_token(l.logits, l.slot, l.position, l.candidates);
}

void store(const Sample& op, const HostMemory& m, Local& l) {
  if (l.wanted) m.data<SampledToken>(op.sampled)[op.row] = l.token;
}

}  // namespace

SERVAL_HOST_OP(Sample)

}  // namespace serval
