#include <span>
#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/sample/op.h"
#include "instructions/sample/sampler.h"

namespace serval {
namespace {

// A row that wants a token.
struct Draw {
  uint32_t row;
  uint32_t position;  // of the token to be drawn
  SequenceSlot slot;
  std::vector<float> logits;
  SampledToken token;
};

struct Local final : HostLocal {
  std::vector<Draw> draws;  // the first `count` are this instance's; kept for their memory
  size_t count = 0;
  std::vector<Candidate> candidates;
};

void load(const Sample& op, const HostMemory& m, Local& l) {
  l.count = 0;
  for (uint32_t r = op.first_row; r < op.first_row + op.num_rows; ++r) {
    const PassRow row = m.data<const PassRow>(op.rows)[r];
    if (!row_wants_logits(row)) continue;
    if (l.count == l.draws.size()) l.draws.emplace_back();
    Draw& draw = l.draws[l.count++];
    draw.row = r;
    draw.position = row.position + 1;
    draw.slot = m.data<const SequenceSlot>(op.slots)[row.slot];
    const float* logits = m.data<const float>(op.logits) + size_t{r} * op.vocab;
    draw.logits.assign(logits, logits + op.vocab);
  }
}

void compute(const Sample&, const HostMemory&, Local& l) {
  for (Draw& draw : std::span(l.draws).first(l.count)) {
    draw.token = sample_token(draw.logits, draw.slot, draw.position, l.candidates);
  }
}

void store(const Sample& op, const HostMemory& m, Local& l) {
  for (const Draw& draw : std::span(l.draws).first(l.count)) {
    m.data<SampledToken>(op.sampled)[draw.row] = draw.token;
  }
}

}  // namespace

SERVAL_HOST_OP(Sample)

}  // namespace serval
