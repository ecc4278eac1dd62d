// Limits on the time of a pattern. The tests of tokenizers cover the matches.
#include "models/tokenizer/regex.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/base/error.h"

namespace serval {
namespace {

using ::testing::HasSubstr;

// Reads the text to its end from every starting position.
constexpr const char* kQuadratic = "a*[bc]";
constexpr size_t kText = 1000;

// A clock that tests control. It counts its reads.
struct Clock {
  double now = 0;
  size_t reads = 0;
  size_t last_read_in_time = SIZE_MAX;

  double read() {
    if (reads++ == last_read_in_time) now += 1;
    return now;
  }
  // A budget of zero seconds on this clock.
  RegexBudget budget() {
    return {.seconds = 0, .seconds_per_byte = 0, .clock = [this] { return read(); }};
  }
};

TEST(Regex, ReadsTheClockBetweenWindowsOfStartingPositions) {
  Clock clock;
  const Regex regex(kQuadratic, "here", clock.budget());
  EXPECT_TRUE(regex.find_all(std::string(kText, 'a')).empty());
  EXPECT_GE(clock.reads, kText / Regex::kSearchWindow);
}

TEST(Regex, FailsAtTheFirstReadOfTheClockAfterTheBudgetIsSpent) {
  Clock clock;
  clock.last_read_in_time = 5;
  const Regex regex(kQuadratic, "here", clock.budget());
  try {
    regex.find_all(std::string(kText, 'a'));
    ADD_FAILURE() << "it had all the time in the world";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(),
                HasSubstr("here: pattern \"a*[bc]\" on a text of 1000 bytes: takes too much time"));
  }
  EXPECT_EQ(clock.reads, clock.last_read_in_time + 1);
}

TEST(Regex, MatchesCountAgainstTheBudgetToo) {
  Clock clock;
  clock.last_read_in_time = 5;
  const Regex regex("a", "here", clock.budget());
  EXPECT_THROW(regex.find_all(std::string(kText, 'a')), Error);
}

TEST(Regex, LongTextsMayTakeLonger) {
  Clock clock;
  clock.last_read_in_time = 5;
  RegexBudget budget = clock.budget();
  budget.seconds_per_byte = 2.0 / kText;
  EXPECT_TRUE(Regex(kQuadratic, "here", budget).find_all(std::string(kText, 'a')).empty());
}

TEST(Regex, HasADefaultBudget) {
  const RegexBudget budget;
  EXPECT_GT(budget.seconds, 0);
  const double before = budget.clock();
  volatile double work = 1;
  while (budget.clock() <= before) work = work * 2;  // CPU time only passes while the thread computes
}

}  // namespace
}  // namespace serval
