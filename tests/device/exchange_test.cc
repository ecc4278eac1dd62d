// The exchange between two and four ranks without a model, on one GPU and on several.
#include <fmt/format.h>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "benchmarks/exchange/exchange_timer.h"
#include "engine/device/gpu.h"
#include "scheduler/valid_program.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/exchange/host_exchange.h"

namespace serval::testing {
namespace {

std::vector<int> one_gpu(uint32_t ranks) {
  return std::vector<int>(ranks);
}

ValidProgram program_of(const ExchangeShape& shape, const std::vector<int>& gpus) {
  Machine machine = h200_machine();
  machine.sms = find_gpus(gpus).front().sms;
  return ValidProgram(exchange_program(shape, machine));
}

// Results of three launches on each rank.
struct Left {
  std::vector<std::vector<std::byte>> weighted, residual;
};
Left left_on(const Program& program, const std::vector<int>& gpus) {
  BoundExchange bound(program, gpus);
  for (int launch = 0; launch < 3; ++launch) EXPECT_GT(bound.run_us(), 0);
  Left left;
  for (uint32_t rank = 0; rank < gpus.size(); ++rank) {
    left.weighted.push_back(bound.read(exchange_tensor::kWeighted, rank));
    left.residual.push_back(bound.read(exchange_tensor::kResidual, rank));
  }
  return left;
}

// `rows`: rows that are summed; they select the kernel.
struct Case {
  uint32_t ranks, rows;
};
std::string name_of(const Case& c) {
  return fmt::format("{}RowsOn{}Ranks", c.rows, c.ranks);
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c);
}
class Exchange : public ::testing::TestWithParam<Case> {
 protected:
  const uint32_t ranks = GetParam().ranks, rows = GetParam().rows;
  const ExchangeShape shape{.ranks = ranks,
                            .rows = rows,
                            .weight_cols = rows <= kDefaultRows ? 1088U : 128U,
                            .matrices = 2,
                            .rounds = 3};

  // Compares each rank's slice of the columns, the only part of the residual that the rank updates.
  void expect_hosts_sums(const Program& program, const Left& left) const {
    HostExchange host(program);
    host.run();
    double square = 0, power = 0;
    const uint32_t width = shape.cols / ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto* found = reinterpret_cast<const float*>(left.residual[rank].data());
      const auto* expected = host.data<float>(exchange_tensor::kResidual, rank);
      for (size_t i = 0; i < size_t{rows} * shape.cols; ++i) {
        if (i % shape.cols / width != rank) continue;
        const double off = double{found[i]} - expected[i];
        square += off * off;
        power += double{expected[i]} * expected[i];
      }
    }
    EXPECT_GT(power, 0);
    EXPECT_LE(square, 1e-6 * power);
    fmt::print("[ figures  ] NMSE against the host: {:.2g}\n", square / power);
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const uint32_t ranks : {2U, 4U}) {
    for (const uint32_t rows : {1U, 3U, 16U, 64U, 300U}) all.push_back({ranks, rows});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Of, Exchange, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return name_of(instance.param); });

TEST_P(Exchange, HasTheHostsSumsOnAllRanksOfOneGpu) {
  const std::vector<int> gpus = one_gpu(ranks);
  const ValidProgram program = program_of(shape, gpus);
  const Left left = left_on(*program, gpus);
  EXPECT_THAT(left.weighted, ::testing::Each(left.weighted.front()));
  expect_hosts_sums(*program, left);
}

TEST_P(Exchange, HasTheBitsOfOneGpuOnSeveral) {
  const std::vector<int> gpus = gpus_of_ranks(ranks), same = one_gpu(ranks);
  if (gpus == same) GTEST_SKIP() << "NOT TESTED: there is one GPU here, and this test is about several";
  const ValidProgram program = program_of(shape, gpus);
  const Left left = left_on(*program, gpus), expected = left_on(*program_of(shape, same), same);
  EXPECT_TRUE(left.weighted == expected.weighted);
  EXPECT_TRUE(left.residual == expected.residual);
  expect_hosts_sums(*program, left);
}

TEST(ExchangeTimer, TimesIdleAndLoadedRanksOfEachKernel) {
  for (const uint32_t ranks : {2U, 4U}) {
    const ExchangeTimer timer(gpus_of_ranks(ranks), 1);
    for (const uint32_t rows : {1U, 16U, 64U, 300U}) {
      SCOPED_TRACE(fmt::format("{} rows on {} ranks", rows, ranks));
      const ExchangeTime idle = timer.idle(rows), loaded = timer.loaded(rows, idle.us);
      EXPECT_GT(idle.us, 0);
      EXPECT_GT(loaded.us, 0);
      EXPECT_GT(loaded.weight_bytes, idle.weight_bytes);
    }
  }
}

}  // namespace
}  // namespace serval::testing
