#include "profiler/sim/work.h"

#include <gtest/gtest.h>
#include <map>
#include <utility>

#include "instructions/isa.h"
#include "models/llama/graph.h"
#include "profiler/sim/simulate.h"
#include "scheduler/compile.h"
#include "tests/llama/tiny_model.h"
#include "vm/layout/page_image.h"

namespace serval::sim {
namespace {

const Program& tiny() {
  static const Program program = [] {
    const Machine machine = h200_machine();
    return compile(build_llama_graph(testing::tiny_config(), {.sms = 7, .context = 1024}), machine,
                   {.policy = Policy::kRoundRobin, .queue_kind = QueueKind::kPerSm, .context = {}});
  }();
  return program;
}

Work work(const Instruction& instruction, std::vector<PassRow> rows) {
  rows.resize(tiny().limits.rows);
  return work_of(tiny(), instruction, Pass(std::move(rows)), BlockTable(kDefaultSequences, 1024));
}

// Calls fn with all instances of an op.
template <class Op, class Fn>
void for_all(Fn&& fn) {
  for (const Instruction& i : tiny().instructions) {
    if (i.opcode == static_cast<uint16_t>(kOpcodeOf<Op>)) fn(i);
  }
}

template <class Op>
uint64_t streamed_bytes(uint32_t rows) {
  uint64_t bytes = 0;
  for_all<Op>([&](const Instruction& i) {
    const Work w = work(i, decode_launch(rows, 100, 1).rows);
    EXPECT_EQ(w.kind, Work::Kind::kStream);
    for (uint32_t panel = 0; panel < w.panels; ++panel)
      bytes += uint64_t{w.units} * w.matrices * w.page_bytes(panel);
  });
  return bytes;
}

TEST(Work, StreamsEveryPageOfTheWeightsThatAreMultiplied) {
  const LlamaConfig config = testing::tiny_config();
  const auto hidden = static_cast<uint32_t>(config.hidden_size);
  const auto image = [](int64_t rows, int64_t cols) {
    return page_image::bytes(static_cast<uint64_t>(rows), static_cast<uint32_t>(cols));
  };
  for (const uint32_t rows : {1U, 5U, 16U}) {
    EXPECT_EQ(streamed_bytes<QkvRope>(rows), 3 * image((4 + 2 + 2) * 64, hidden));
    EXPECT_EQ(streamed_bytes<GateUpSilu>(rows), 3 * 2 * image(config.intermediate_size, hidden));
    EXPECT_EQ(streamed_bytes<MatvecResidual>(rows),
              3 * (image(hidden, 4 * 64) + image(hidden, config.intermediate_size)));
    EXPECT_EQ(streamed_bytes<LmHead>(rows), image(config.vocab_size, hidden));
  }
}

TEST(Work, PagesOfCodesHaveMoreColumns) {
  LlamaConfig config = testing::tiny_config();
  config.hidden_size = 2048;  // so that half of a page has no columns of padding
  config.intermediate_size = 4096;
  const auto bytes_of = [&] {
    const Program program =
        compile(build_llama_graph(config, {.sms = 7, .context = 1024}), h200_machine(),
                {.policy = Policy::kRoundRobin, .queue_kind = QueueKind::kPerSm, .context = {}});
    std::vector<PassRow> rows = decode_launch(1, 100, 1).rows;
    rows.resize(program.limits.rows);
    std::pair<uint64_t, uint64_t> streamed_and_inputs;
    for (const Instruction& i : program.instructions) {
      const Work w = work_of(program, i, Pass(rows), BlockTable(kDefaultSequences, 1024));
      if (w.kind != Work::Kind::kStream) continue;
      for (uint32_t panel = 0; panel < w.panels; ++panel)
        streamed_and_inputs.first += uint64_t{w.units} * w.matrices * w.page_bytes(panel);
      streamed_and_inputs.second += w.input_bytes;
    }
    return streamed_and_inputs;
  };
  const auto [in_bf16, inputs_of_bf16] = bytes_of();
  config.formats = {.layers = DType::kE4M3, .lm_head = DType::kE4M3};
  const auto [in_e4m3, inputs_of_e4m3] = bytes_of();
  EXPECT_EQ(in_e4m3, in_bf16 / 2);
  EXPECT_EQ(inputs_of_e4m3, inputs_of_bf16);
  config.formats = {.layers = DType::kInt4G128, .lm_head = DType::kInt4G128};
  const auto [in_int4, inputs_of_int4] = bytes_of();
  EXPECT_LT(in_int4, in_bf16 / 3);
  EXPECT_GE(in_int4, in_bf16 / 4);
  EXPECT_EQ(inputs_of_int4, inputs_of_bf16);
}

// K splits of a matrix are streamed once, each with the input of its columns.
TEST(Work, StreamsOnlyItsPartOfTheColumns) {
  const LlamaConfig config = testing::tiny_parts_config();
  Machine machine = h200_machine();
  machine.sms = 7;
  const Program program =
      compile(build_llama_graph(config, {.sms = 7, .context = 200, .rows = 17, .tile_rows = 32}), machine,
              {.policy = Policy::kRoundRobin, .queue_kind = QueueKind::kPerSm, .context = {}});
  std::vector<PassRow> rows = decode_launch(3, 100, 1).rows;
  rows.resize(program.limits.rows);
  uint64_t streamed = 0, input = 0;
  for (const Instruction& i : program.instructions) {
    if (i.tag != 0) continue;
    const Work w = work_of(program, i, Pass(rows), BlockTable(kDefaultSequences, 200));
    if (i.opcode == static_cast<uint16_t>(Opcode::kAddParts)) {
      EXPECT_EQ(w.kind, i.as<AddParts>().first_row < 3 ? Work::Kind::kGroup : Work::Kind::kNothing);
    }
    if (i.opcode != static_cast<uint16_t>(Opcode::kMatvecPart)) continue;
    EXPECT_EQ(w.kind, Work::Kind::kTile);
    EXPECT_EQ(w.matrices, 1U);
    EXPECT_EQ(w.rows, 3U);
    for (uint32_t panel = 0; panel < w.panels; ++panel) streamed += uint64_t{w.units} * w.page_bytes(panel);
    if (i.as<MatvecPart>().first_unit == 0) input += w.input_bytes;
  }
  EXPECT_EQ(streamed, page_image::bytes(128, 18 * 64) + page_image::bytes(128, 2112));
  EXPECT_EQ(input, 3U * (18 * 64 + 2112) * 2);
}

TEST(Work, TakesAUnitsRowsFromAsManyMatricesAsItHasThem) {
  for_all<GateUpSilu>([](const Instruction& i) {
    const Work w = work(i, decode_launch(3, 100, 1).rows);
    EXPECT_EQ(w.matrices, 2U);
    EXPECT_EQ(w.units, i.as<GateUpSilu>().num_units);
  });
  for_all<QkvRope>([](const Instruction& i) {
    const Work w = work(i, decode_launch(3, 100, 1).rows);
    EXPECT_EQ(w.matrices, 1U);
    EXPECT_EQ(w.units, i.as<QkvRope>().num_units);
  });
}

TEST(Work, BringsBf16ActivationsToTheProductsAndFp32OnesToTheStorers) {
  const uint32_t hidden = 96, rows = 3;
  for_all<GateUpSilu>([&](const Instruction& i) {
    const Work w = work(i, decode_launch(rows, 100, 1).rows);
    EXPECT_EQ(w.input_bytes, rows * hidden * 2);
    EXPECT_EQ(w.scale_bytes, rows * hidden / 8 * 4);
  });
  for_all<MatvecResidual>([&](const Instruction& i) {
    const Work w = work(i, decode_launch(rows, 100, 1).rows);
    EXPECT_EQ(w.input_bytes, rows * i.as<MatvecResidual>().in_cols * 2);
    EXPECT_EQ(w.scale_bytes, 0U);
  });
}

TEST(Work, LooksUpATableWithoutStreamingIt) {
  for_all<Embed>([](const Instruction& i) {
    const Work w = work(i, decode_launch(2, 100, 1).rows);
    EXPECT_EQ(w.kind, Work::Kind::kGroup);
    EXPECT_TRUE(w.from_hbm);
    EXPECT_LT(w.bytes, 10000U);
  });
}

TEST(Work, ReadsTheKeysAndValuesThatAreThereOnce) {
  const auto kv_bytes = [](const std::vector<PassRow>& rows) {
    uint64_t bytes = 0;
    for_all<Attention>([&](const Instruction& i) {
      const Work w = work(i, rows);
      if (w.kind == Work::Kind::kNothing) return;
      EXPECT_TRUE(w.from_hbm);
      bytes += w.bytes - rows.size() * 2 * 64 * 2;  // the queries of a KV head
    });
    return bytes;
  };
  constexpr uint64_t kTokenBytes = 3 * 2 * 2 * 64 * 2;  // layers, K and V, heads, channels, bf16
  EXPECT_EQ(kv_bytes(decode_launch(1, 700, 1).rows), 701 * kTokenBytes);
  // A prompt's rows share the keys; the last row uses all of them.
  std::vector<PassRow> prompt = decode_launch(4, 200, 1).rows;
  for (uint32_t r = 0; r < prompt.size(); ++r) prompt[r].slot = 0, prompt[r].position = 200 + r;
  EXPECT_EQ(kv_bytes(prompt), 204 * kTokenBytes);
}

TEST(Work, IsNothingWhereNoRowWantsIt) {
  std::vector<PassRow> rows = decode_launch(2, 100, 1).rows;
  for (PassRow& row : rows) row.wants_logits = 0;
  for_all<LmHead>([&](const Instruction& i) { EXPECT_EQ(work(i, rows).kind, Work::Kind::kNothing); });
  for_all<Sample>([&](const Instruction& i) { EXPECT_EQ(work(i, rows).kind, Work::Kind::kNothing); });
  // Only the samplers of the two rows work, of 16.
  uint32_t at_work = 0;
  for_all<Sample>([&](const Instruction& i) {
    at_work += work(i, decode_launch(2, 100, 1).rows).kind == Work::Kind::kNothing ? 0 : 1;
  });
  EXPECT_EQ(at_work, 2U);
}

TEST(Pass, MovesRowsOnThatWantLogitsAndEndsTheOthers) {
  std::vector<PassRow> rows = decode_launch(3, 10, 1).rows;
  rows[1].wants_logits = 0;
  rows[2].position = 19;
  const Pass pass(rows);
  EXPECT_EQ(pass.active_rows(), 3U);
  const std::vector<PassRow> next = pass.next_rows(20);
  EXPECT_EQ(next[0].active, 1U);
  EXPECT_EQ(next[0].position, 11U);
  EXPECT_EQ(next[1].active, 0U);
  EXPECT_EQ(next[2].active, 0U);  // the context is full
}

}  // namespace
}  // namespace serval::sim
