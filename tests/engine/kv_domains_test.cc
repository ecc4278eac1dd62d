#include "engine/core/kv_domains.h"

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(KvDomains, EachSaltHasItsOwnDomain) {
  KvDomains domains(8);
  const uint64_t ann = domains.of("ann"), bob = domains.of("bob");
  EXPECT_EQ(domains.of(""), KvDomains::kUnsalted);
  EXPECT_NE(ann, KvDomains::kUnsalted);
  EXPECT_NE(ann, bob);
  EXPECT_EQ(domains.of("ann"), ann);
}

TEST(KvDomains, RemembersTheSaltsThatWereUsedLast) {
  KvDomains domains(2);
  const uint64_t ann = domains.of("ann"), bob = domains.of("bob");
  EXPECT_EQ(domains.of("ann"), ann);
  const uint64_t cid = domains.of("cid");
  EXPECT_EQ(domains.of("ann"), ann) << "used later than bob";
  const uint64_t again = domains.of("bob");
  EXPECT_NE(again, bob) << "another salt must never get a domain that has blocks";
  EXPECT_NE(again, ann);
  EXPECT_NE(again, cid);
}

}  // namespace
}  // namespace serval
