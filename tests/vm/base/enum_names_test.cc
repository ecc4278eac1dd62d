// An enumeration's names are printed and parsed with one table.
#include "vm/base/enum_names.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/dtype.h"
#include "vm/program.h"

namespace serval {
namespace {

using ::testing::ElementsAre;

template <NamedEnum E>
void expect_names_to_lead_back() {
  std::set<std::string> names;
  for (const E value : enumerators<E>()) {
    EXPECT_EQ(enumerator_named<E>(name_of(value)), value);
    names.insert(name_of(value));
  }
  EXPECT_EQ(names.size(), enumerators<E>().size());
}

TEST(EnumNames, LeadBackToTheirEnumerators) {
  expect_names_to_lead_back<DType>();
  expect_names_to_lead_back<Image>();
  expect_names_to_lead_back<QueueKind>();
}

TEST(EnumNames, AreListedInTheOrderOfTheTable) {
  EXPECT_THAT(enumerator_names<QueueKind>(), ElementsAre("per-sm", "global"));
  EXPECT_EQ(enumerators<DType>().size(), static_cast<size_t>(kNumDTypes));
  EXPECT_EQ(enumerators<Image>().size(), static_cast<size_t>(kNumImages));
}

TEST(EnumNames, AreExact) {
  EXPECT_EQ(enumerator_named<QueueKind>("Global"), std::nullopt);
  EXPECT_EQ(enumerator_named<QueueKind>(""), std::nullopt);
  EXPECT_STREQ(name_of(static_cast<QueueKind>(7)), "?");
}

}  // namespace
}  // namespace serval
