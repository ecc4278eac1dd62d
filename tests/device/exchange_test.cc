// The exchange between ranks without a model, on two ranks of one GPU.
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/device/gpu.h"
#include "engine/exchange/exchange_timer.h"
#include "tests/exchange/host_exchange.h"
#include "vm/base/bf16.h"
#include "vm/layout/activation_image.h"

namespace serval::testing {
namespace {

const std::vector<int> kGpus = {0, 0};

Program program_of(const ExchangeShape& shape) {
  Machine machine = h200_machine();
  machine.sms = find_gpus(kGpus).front().sms;
  return exchange_program(shape, machine);
}

// The values of `weighted` on a rank, of a program of up to 16 rows.
std::vector<float> sums_on(const BoundExchange& bound, const ExchangeShape& shape, uint32_t rank) {
  const std::vector<std::byte> image = bound.read(exchange_tensor::kWeighted, rank);
  std::vector<float> values;
  for (uint32_t row = 0; row < shape.rows; ++row) {
    for (uint32_t col = 0; col < shape.cols; ++col) {
      uint16_t value = 0;
      std::memcpy(&value, image.data() + activation_image::offset(shape.rows, shape.cols, row, col), 2);
      values.push_back(bf16_to_float(value));
    }
  }
  return values;
}

class ExchangeOnOneGpu : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, ExchangeOnOneGpu, ::testing::Values(1, 3, 16));

TEST_P(ExchangeOnOneGpu, HasTheHostsSumsOnBothRanks) {
  const ExchangeShape shape{.ranks = 2, .rows = GetParam(), .weight_cols = 1072, .matrices = 2, .rounds = 5};
  const Program program = program_of(shape);
  HostExchange host(program);
  host.run();
  BoundExchange bound(program, kGpus);
  for (int launch = 0; launch < 3; ++launch) EXPECT_GT(bound.run_us(), 0);
  const std::vector<float> sums = sums_on(bound, shape, 0);
  EXPECT_EQ(sums, sums_on(bound, shape, 1));
  const auto* expected = host.data<uint16_t>(exchange_tensor::kWeighted, 0);
  double square = 0, power = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double value = bf16_to_float(expected[i]);
    square += (sums[i] - value) * (sums[i] - value);
    power += value * value;
  }
  EXPECT_GT(power, 0);
  EXPECT_LE(square, 1e-4 * power);
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
