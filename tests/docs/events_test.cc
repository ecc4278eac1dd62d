// docs/profiling.md has every event of vm/events.def, in its words.
#include "vm/events.h"

#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(ProfilingPage, ListsTheEvents) {
  std::ifstream file(SERVAL_SOURCE_DIR "/docs/profiling.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  std::string table;
  for (const EventInfo& info : kEventInfos) {
    table += std::string("| `") + info.name + "` | " + kSmRoleNames[static_cast<size_t>(info.role)] + " | " +
             info.argument + " | " + info.meaning + " |\n";
  }
  EXPECT_THAT(page, ::testing::HasSubstr(table));
}

}  // namespace
}  // namespace serval
