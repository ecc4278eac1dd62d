// The exchange between ranks without a model: the program is valid and computes an all-reduce.
#include "benchmarks/exchange/exchange_program.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/common/matvec.h"
#include "instructions/isa.h"
#include "instructions/kernels.h"
#include "scheduler/validate.h"
#include "tests/exchange/host_exchange.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

Machine gpu_of(uint32_t sms) {
  Machine machine = h200_machine();
  machine.sms = sms;
  return machine;
}

std::string refusal_of(const Program& program) {
  const std::optional<Violation> found = validate(program);
  return found ? found->message : "";
}

std::string usage_error(const ExchangeShape& shape) {
  try {
    exchange_program(shape, gpu_of(4));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(ExchangeProgram, IsValidForAllRanksAndKernels) {
  for (const uint32_t ranks : {2U, 4U, 8U}) {
    for (const uint32_t rows : {1U, 4U, 16U, 64U, 256U, 600U}) {
      const Program program = exchange_program({.ranks = ranks, .rows = rows, .rounds = 2}, gpu_of(132));
      EXPECT_EQ(refusal_of(program), "") << ranks << " ranks, " << rows << " rows";
    }
  }
}

TEST(ExchangeProgram, IsValidOnTheSmsThatRanksOfOneGpuHave) {
  for (const uint32_t sms : {1U, 7U, 66U}) {
    for (const uint32_t rows : {1U, 64U})
      EXPECT_EQ(refusal_of(exchange_program({.rows = rows, .rounds = 3}, gpu_of(sms))), "") << sms << " SMs";
  }
}

// Every wait is necessary: without one the program is refused.
TEST(ExchangeProgram, NeedsEveryWait) {
  const Program program = exchange_program({.rounds = 3}, gpu_of(2));
  for (const Opcode opcode : {Opcode::kMatvecPush, Opcode::kReduceResidual}) {
    Program early = program;
    const auto second = std::ranges::find_if(early.instructions, [&](const Instruction& i) {
      return i.opcode == static_cast<uint16_t>(opcode) && i.tag == 1;
    });
    second->wait_count = 0;
    EXPECT_NE(refusal_of(early), "") << op_name(static_cast<uint16_t>(opcode));
  }
}

TEST(ExchangeProgram, HasAKernel) {
  for (const uint32_t rows : {1U, 8U, 16U, 64U, 512U}) {
    const Program program = exchange_program({.rows = rows}, gpu_of(132));
    EXPECT_TRUE(std::ranges::any_of(kernels(), [&](const KernelTraits& kernel) {
      return kernel.rows >= rows && runs(kernel, program) &&
             kernel.ring_pages >= program.machine.pages_per_sm;
    })) << rows;
  }
}

// Each round adds the ranks' sums in rank order, then the residual: the same bits on all ranks. Tiles of rows
// push sums in bf16.
void expect_sums(const ExchangeShape& shape) {
  const Program program = exchange_program(shape, gpu_of(3));
  HostExchange host(program);
  ASSERT_EQ(host.run(), 1U);
  const auto weights_of = [&](const std::string& name, uint32_t rank) {
    return exchange_weights(program.tensors[program.find_tensor(name, rank).value().index]);
  };
  for (uint32_t row = 0; row < shape.rows; ++row) {
    std::vector<float> residual(shape.cols);
    for (uint32_t owner = 0; owner < shape.ranks; ++owner) {
      const std::vector<uint16_t> begin = weights_of(exchange_tensor::kTable, owner);
      const uint32_t width = shape.cols / shape.ranks;
      for (uint32_t c = owner * width; c < (owner + 1) * width; ++c)
        residual[c] = bf16_to_float(begin[size_t{row} * shape.cols + c]);
    }
    for (uint32_t round = 0; round < shape.rounds; ++round) {
      std::vector<float> sum(shape.cols);
      for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
        const std::vector<uint16_t> table = weights_of(exchange_tensor::kInputTable, rank);
        std::vector<float> x(matvec_cols(shape.weight_cols)), y(shape.cols);
        matvec_row(table.data() + size_t{row} * shape.weight_cols, shape.weight_cols, x.data());
        const auto weights = weights_of(exchange_tensor::weights(round % shape.matrices), rank);
        matvec(weights.data(), shape.cols, shape.weight_cols, x.data(), 1, y.data(), shape.cols);
        for (uint32_t c = 0; c < shape.cols; ++c) {
          const float pushed = shape.rows > kDefaultRows ? bf16_to_float(float_to_bf16(y[c])) : y[c];
          sum[c] = rank == 0 ? pushed : sum[c] + pushed;
        }
      }
      for (uint32_t c = 0; c < shape.cols; ++c) residual[c] = sum[c] + residual[c];
    }
    std::vector<uint16_t> expected;
    for (const float value : residual) expected.push_back(float_to_bf16(value));
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const auto* found = host.data<uint16_t>(exchange_tensor::kWeighted, rank) + size_t{row} * shape.cols;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), found)) << "rank " << rank << " row " << row;
    }
  }
}

TEST(ExchangeProgram, LeavesTheSumOfAllRanksOnAllRanks) {
  expect_sums({.ranks = 2, .rows = 1, .cols = 512, .weight_cols = 32, .rounds = 3});
  expect_sums({.ranks = 4, .rows = 5, .cols = 512, .weight_cols = 16, .rounds = 2});
  expect_sums({.ranks = 8, .rows = 2, .cols = 1024, .weight_cols = 48, .matrices = 2, .rounds = 3});
  expect_sums({.ranks = 2, .rows = 20, .cols = 512, .weight_cols = 64, .rounds = 2});
  expect_sums({.ranks = 4, .rows = 70, .cols = 512, .weight_cols = 128, .matrices = 2, .rounds = 3});
}

TEST(ExchangeProgram, LeavesTheSumOfAllRanksInTilesOfRows) {
  expect_sums({.ranks = 2, .rows = 20, .cols = 512, .weight_cols = 64, .rounds = 2});
}

TEST(ExchangeProgram, RunsManyLaunches) {
  const Program program = exchange_program({.cols = 512, .rounds = 4}, gpu_of(2));
  HostExchange host(program);
  for (int launch = 0; launch < 3; ++launch) EXPECT_EQ(host.run(), 1U);
}

TEST(ExchangeProgram, RefusesWhatRanksCannotShare) {
  EXPECT_EQ(usage_error({.ranks = 1}), "ranks: 1; expected 2, 4 or 8");
  EXPECT_EQ(usage_error({.ranks = 3}), "ranks: 3; expected 2, 4 or 8");
  EXPECT_EQ(usage_error({.rows = 0}), "rows: 0; limit: 1 to 8192");
  EXPECT_EQ(usage_error({.rows = 8193}), "rows: 8193; limit: 1 to 8192");
  EXPECT_THAT(usage_error({.cols = 100}), HasSubstr("columns: 100; expected a multiple of 128"));
  EXPECT_THAT(usage_error({.weight_cols = 24}), HasSubstr("columns of weights: 24"));
  EXPECT_THAT(usage_error({.rounds = 0}), HasSubstr("rounds: 0"));
}

TEST(ExchangeWeights, AreAsManyAsAskedFor) {
  const ExchangeShape shape = with_weights({.rows = 1}, gpu_of(132), 20 << 20);
  EXPECT_EQ(shape.weight_cols, 1280U);
  EXPECT_EQ(weight_bytes_of_round(shape), 20U << 20);
  EXPECT_GE(shape.matrices * weight_bytes_of_round(shape), 256U << 20) << "no cache holds them";
}

// A ring of nine pages plus eight in registers; for tiles of rows a ring of six.
TEST(ExchangeWeights, AreNoMoreThanSmsHoldBeforeTheirInputs) {
  const ExchangeShape vectors = with_weights({.rows = 1}, gpu_of(132), uint64_t{1} << 40);
  EXPECT_LE(weight_bytes_of_round(vectors), uint64_t{132} * 17 * kPageBytes);
  EXPECT_GT(weight_bytes_of_round(vectors), uint64_t{132} * 16 * kPageBytes);
  const ExchangeShape tiles = with_weights({.rows = 64}, gpu_of(132), uint64_t{1} << 40);
  EXPECT_LE(weight_bytes_of_round(tiles), uint64_t{132} * 6 * kPageBytes);
  EXPECT_EQ(refusal_of(exchange_program(vectors, gpu_of(132))), "");
}

}  // namespace
}  // namespace serval::testing
