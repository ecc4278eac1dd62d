// The exchange between ranks without a model, on two ranks of one GPU.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/device/gpu.h"
#include "engine/exchange/exchange_timer.h"
#include "scheduler/valid_program.h"
#include "tests/exchange/host_exchange.h"

namespace serval::testing {
namespace {

const std::vector<int> kGpus = {0, 0};
constexpr uint32_t kRanks = 2;

ValidProgram program_of(const ExchangeShape& shape) {
  Machine machine = h200_machine();
  machine.sms = find_gpus(kGpus).front().sms;
  return ValidProgram(exchange_program(shape, machine));
}

// Of the rows that are summed up: one kernel's, or another's.
class ExchangeOnOneGpu : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, ExchangeOnOneGpu, ::testing::Values(1, 3, 16, 64, 300));

TEST_P(ExchangeOnOneGpu, HasTheHostsSumsOnBothRanks) {
  const uint32_t rows = GetParam();
  const ExchangeShape shape{.ranks = kRanks,
                            .rows = rows,
                            .weight_cols = rows <= kDefaultRows ? 1088U : 128U,
                            .matrices = 2,
                            .rounds = 3};
  const ValidProgram program = program_of(shape);
  HostExchange host(*program);
  host.run();
  BoundExchange bound(*program, kGpus);
  for (int launch = 0; launch < 3; ++launch) EXPECT_GT(bound.run_us(), 0);
  EXPECT_EQ(bound.read(exchange_tensor::kWeighted, 0), bound.read(exchange_tensor::kWeighted, 1));
  double square = 0, power = 0;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<std::byte> residual = bound.read(exchange_tensor::kResidual, rank);
    const auto* found = reinterpret_cast<const float*>(residual.data());
    const auto* expected = host.data<float>(exchange_tensor::kResidual, rank);
    const uint32_t width = shape.cols / kRanks;  // of the slice, which alone is kept up
    for (size_t i = 0; i < size_t{rows} * shape.cols; ++i) {
      if (i % shape.cols / width != rank) continue;
      const double off = double{found[i]} - expected[i];
      square += off * off;
      power += double{expected[i]} * expected[i];
    }
  }
  EXPECT_GT(power, 0);
  EXPECT_LE(square, 1e-6 * power);
}

TEST(ExchangeTimer, TimesIdleAndLoadedRanksOfEachKernel) {
  const ExchangeTimer timer(kGpus, 1);
  for (const uint32_t rows : {1U, 16U, 64U, 300U}) {
    const ExchangeTime idle = timer.idle(rows), loaded = timer.loaded(rows, idle.us);
    EXPECT_GT(idle.us, 0) << rows;
    EXPECT_GT(loaded.us, 0) << rows;
    EXPECT_GT(loaded.weight_bytes, idle.weight_bytes) << rows;
  }
}

}  // namespace
}  // namespace serval::testing
