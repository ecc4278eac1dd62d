// Tables and records of a measured exchange between ranks.
#include "benchmarks/exchange/exchange_result.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/cli/measure/bench_result.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

ExchangeSubject subject() {
  return {.gpus = {0, 2},
          .gpu_name = "H200",
          .sms = 132,
          .nccl_version = "2.28.3",
          .nccl_note = {},
          .repetitions = 5};
}
ExchangeResult result() {
  return {.bytes = 65536, .idle_us = 8, .loaded_us = 16, .weight_bytes = 32000000, .nccl_us = 32.768};
}

TEST(ExchangeRecord, HasBandwidthsOfTheVectorAndOfTheWeights) {
  const auto record = exchange_record(subject(), result());
  EXPECT_EQ(record.at("rows"), 4);
  EXPECT_DOUBLE_EQ(record.at("gb_per_s_idle"), 8.192);
  EXPECT_DOUBLE_EQ(record.at("gb_per_s_loaded"), 4.096);
  EXPECT_DOUBLE_EQ(record.at("weights_gb_per_s"), 2000);
  EXPECT_DOUBLE_EQ(record.at("gb_per_s_nccl"), 2);
  EXPECT_EQ(record.at("gpus"), 2);
  EXPECT_EQ(record.at("ranks_on"), "0,2");
}

TEST(ExchangeRecord, LeavesOutWhatNcclDidNotDo) {
  ExchangeSubject without = subject();
  without.nccl_note = "did not finish within 20 s: ncclAllReduce of 65536 bytes";
  ExchangeResult ours = result();
  ours.nccl_us = {};
  const auto record = exchange_record(without, ours);
  EXPECT_TRUE(record.at("us_nccl").is_null());
  EXPECT_TRUE(record.at("gb_per_s_nccl").is_null());
  EXPECT_EQ(record.at("nccl_note"), without.nccl_note);
  EXPECT_THAT(exchange_markdown_row(record), HasSubstr("| 2000.0 |  |  |"));
}

TEST(ExchangeRecord, IsARowOfATable) {
  EXPECT_EQ(exchange_markdown_row(exchange_record(subject(), result())),
            "| 65536 | 4 | 8.0 | 8.2 | 16.0 | 4.1 | 2000.0 | 32.8 | 2.0 |\n");
}

TEST(ExchangeRecord, IsALineOfCsv) {
  EXPECT_THAT(cli::csv_row(exchange_record(subject(), result())), HasSubstr(",2,\"0,2\",132,5,"));
}

}  // namespace
}  // namespace serval::testing
