#include "scheduler/access_log.h"

#include <set>
#include <span>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

constexpr Box kAll{0, 6, 0, 6};
constexpr uint32_t kRecords = 3;

Region access(Access access, Box box = kAll) {
  return {{0}, box, access, 0, Part::kWhole, true};
}
Region share(uint32_t share, Part part = Part::kItemRows) {
  return {{0}, kAll, Access::kWrite, 0, part, true, kRecords, share};
}

std::set<uint32_t> conflicts(const AccessLog& log, const Region& region) {
  std::set<uint32_t> out;
  log.for_conflicts(region, [&](std::span<const uint32_t> nodes) { out.insert(nodes.begin(), nodes.end()); });
  return out;
}

TEST(AccessLog, ASharesWriterMeetsNoOtherShareOfItsDeal) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{11}));
  EXPECT_EQ(conflicts(log, share(1, Part::kSplitRows)), (std::set<uint32_t>{10, 11, 12}));
  EXPECT_EQ(conflicts(log, access(Access::kRead)), (std::set<uint32_t>{10, 11, 12}));
  EXPECT_EQ(conflicts(log, access(Access::kWrite)), (std::set<uint32_t>{10, 11, 12}));
}

// Until the deal is complete, each of its writers must meet what was there before.
TEST(AccessLog, ADealHidesWhatCameBeforeItWhenItIsComplete) {
  AccessLog log(1);
  log.record(access(Access::kWrite), 1);
  log.record(access(Access::kRead), 2);
  log.record(share(0), 10);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{1, 2}));
  log.record(share(2), 12);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{1, 2}));
  log.record(access(Access::kRead), 3);  // in the midst of it: stays
  log.record(share(1), 11);
  EXPECT_EQ(conflicts(log, access(Access::kWrite)), (std::set<uint32_t>{3, 10, 11, 12}));
}

TEST(AccessLog, TheNextDealHidesTheOneBefore) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  log.record(access(Access::kRead), 20);
  for (uint32_t s = 0; s < kRecords; ++s) {
    EXPECT_EQ(conflicts(log, share(s)), (std::set<uint32_t>{10 + s, 20}));
    log.record(share(s), 30 + s);
  }
  EXPECT_EQ(conflicts(log, access(Access::kRead)), (std::set<uint32_t>{30, 31, 32}));
}

TEST(AccessLog, AWholeWriteHidesADeal) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  log.record(access(Access::kWrite), 20);
  EXPECT_EQ(conflicts(log, share(0)), (std::set<uint32_t>{20}));
}

}  // namespace
}  // namespace serval::testing
