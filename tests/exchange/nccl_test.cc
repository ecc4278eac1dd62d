// Measurement of NCCL with a fake library: in a separate process, with a deadline.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "benchmarks/exchange/nccl_library.h"
#include "benchmarks/exchange/nccl_process.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string log_path() {
  return (std::filesystem::temp_directory_path() / fmt::format("serval_nccl_{}.log", getpid())).string();
}

// Logs which rank's GPU becomes the current one, if the library has a log. A sample takes 100 µs.
class FakeStreams final : public RankStreams {
 public:
  explicit FakeStreams(bool end) : end_(end) {}
  void use(size_t rank) override {
    if (const char* log = std::getenv("FAKE_NCCL_LOG"))
      std::ofstream(log, std::ios::app) << "use " << rank << "\n";
  }
  void* buffer(size_t) override { return this; }
  void* stream(size_t) override { return this; }
  void mark_begin(size_t) override {}
  void mark_end(size_t) override {}
  bool has_ended(size_t) override { return end_; }
  double elapsed_us(size_t) override { return 100; }

 private:
  const bool end_;
};

NcclSource source(bool streams_end = true) {
  return {.library = SERVAL_FAKE_NCCL,
          .streams = [streams_end](std::span<const int>, uint64_t) -> std::unique_ptr<RankStreams> {
            return std::make_unique<FakeStreams>(streams_end);
          }};
}
NcclTest test_of(std::vector<uint64_t> bytes) {
  return {.gpus = {0, 1},
          .bytes = std::move(bytes),
          .repetitions = 1,
          .calls = 2,
          .init_s = 5,
          .deadline_s = 0.25,
          .abort_s = 0.5};
}

class Nccl : public ::testing::Test {
 protected:
  ~Nccl() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    std::filesystem::remove(log_path());
  }
  void tell(const std::string& name, const std::string& value) {
    set_.push_back("FAKE_NCCL_" + name);
    setenv(set_.back().c_str(), value.c_str(), 1);
  }
  // The log of the library's calls and of the streams' use.
  static std::vector<std::string> log() {
    std::ifstream file(log_path());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  void keep_log() { tell("LOG", log_path()); }
  static std::string refusal(const std::string& file) {
    try {
      const NcclLibrary library(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(Nccl, IsLoadedWhereItIsNewEnough) {
  EXPECT_EQ(NcclLibrary(SERVAL_FAKE_NCCL).version(), 22803);
}

TEST_F(Nccl, IsMissingInOneLine) {
  EXPECT_THAT(refusal("libnccl_that_is_nowhere.so.2"),
              AllOf(HasSubstr("libnccl_that_is_nowhere.so.2: cannot open"), Not(HasSubstr("\n"))));
}

TEST_F(Nccl, IsRefusedWhereItIsTooOld) {
  tell("VERSION", "22703");
  EXPECT_THAT(refusal(SERVAL_FAKE_NCCL), HasSubstr(": version 2.27.3; expected 2.28.0 or later"));
}

TEST_F(Nccl, IsRefusedByTheNameOfAFunctionThatItLacks) {
  EXPECT_THAT(refusal(SERVAL_FAKE_NCCL_PART), HasSubstr(": has no function ncclGroupEnd"));
}

TEST_F(Nccl, HasVersionsOfTwoForms) {
  EXPECT_EQ(nccl::version_text(22803), "2.28.3");
  EXPECT_EQ(nccl::version_text(2708), "2.7.8");
}

TEST_F(Nccl, IsTimedForEachSize) {
  const NcclResults results = measure_nccl(test_of({16384, 32768}), source());
  EXPECT_EQ(results.note, "");
  EXPECT_EQ(results.version, "2.28.3");
  EXPECT_THAT(results.us, ElementsAre(50, 50));  // for two calls
}

// A call for a rank may wait for the other ranks' calls, which come from the same thread.
TEST_F(Nccl, IsCalledForAllRanksTogetherEachOnItsGpu) {
  keep_log();
  measure_nccl(test_of({16384}), source());
  const std::vector<std::string> found = log(), call = {"ncclGroupStart", "use 0",         "ncclAllReduce",
                                                        "use 1",          "ncclAllReduce", "ncclGroupEnd"};
  std::vector<std::string> expected = {"ncclCommInitAll"};
  for (int i = 0; i < 4; ++i) expected.insert(expected.end(), call.begin(), call.end());  // two samples
  expected.insert(expected.end(), {"ncclCommDestroy", "ncclCommDestroy"});
  EXPECT_EQ(found, expected);
}

TEST_F(Nccl, IsAbortedWhereACallDoesNotReturn) {
  keep_log();
  tell("HANGS", "ncclGroupEnd");
  const NcclResults results = measure_nccl(test_of({16384, 32768}), source());
  EXPECT_EQ(results.note, "did not finish within 0.25 s: ncclAllReduce of 16384 bytes");
  EXPECT_THAT(results.us, Each(std::nullopt));
  EXPECT_EQ(std::ranges::count(log(), "ncclCommAbort"), 2);
}

TEST_F(Nccl, IsAbortedWhereAStreamDoesNotEnd) {
  keep_log();
  const NcclResults results = measure_nccl(test_of({16384}), source(false));
  EXPECT_EQ(results.note, "did not finish within 0.25 s: ncclAllReduce of 16384 bytes");
  EXPECT_EQ(std::ranges::count(log(), "ncclCommAbort"), 2);
}

TEST_F(Nccl, IsAbandonedIfItsAbortHangs) {
  tell("HANGS", "ncclGroupEnd,ncclCommAbort");
  EXPECT_EQ(measure_nccl(test_of({16384}), source()).note,
            "did not finish within 0.25 s: ncclAllReduce of 16384 bytes");
}

TEST_F(Nccl, KeepsTheSizesThatWereMeasuredBefore) {
  tell("HANGS", "ncclGroupEnd");
  tell("FROM", "5");  // the first four calls measure the first size
  const NcclResults results = measure_nccl(test_of({16384, 32768}), source());
  EXPECT_THAT(results.us, ElementsAre(50, std::nullopt));
  EXPECT_THAT(results.note, HasSubstr("ncclAllReduce of 32768 bytes"));
}

// All steps together take longer than one step may.
TEST_F(Nccl, GivesEachStepItsOwnDeadline) {
  tell("SLOW", "ncclCommInitAll");
  NcclTest test = test_of({16384});
  test.init_s = 0.6;
  test.abort_s = 0.1;
  NcclSource slow = source();
  slow.streams = [](std::span<const int>, uint64_t) -> std::unique_ptr<RankStreams> {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return std::make_unique<FakeStreams>(true);
  };
  const NcclResults results = measure_nccl(test, slow);
  EXPECT_EQ(results.note, "");
  EXPECT_THAT(results.us, ElementsAre(50));
}

TEST_F(Nccl, DoesNotThrowIntoTheCallersProcess) {
  NcclSource bad = source();
  bad.streams = [](std::span<const int>, uint64_t) -> std::unique_ptr<RankStreams> { throw 1; };
  EXPECT_EQ(measure_nccl(test_of({16384}), bad).note, "it throws what is no error");
}

TEST_F(Nccl, SaysWhatFails) {
  tell("FAILS", "ncclCommInitAll");
  const NcclResults results = measure_nccl(test_of({16384}), source());
  EXPECT_EQ(results.note, "ncclCommInitAll: invalid usage");
  EXPECT_EQ(results.version, "2.28.3");
}

TEST_F(Nccl, DoesNotEndTheCallersProcess) {
  tell("CRASHES", "ncclAllReduce");
  EXPECT_EQ(measure_nccl(test_of({16384}), source()).note, "its process was ended by signal 6");
}

TEST_F(Nccl, NamesAMissingLibraryInTheNote) {
  NcclSource nowhere = source();
  nowhere.library = "libnccl_that_is_nowhere.so.2";
  const NcclResults results = measure_nccl(test_of({16384, 32768}), nowhere);
  EXPECT_THAT(results.note, HasSubstr("libnccl_that_is_nowhere.so.2: cannot open"));
  EXPECT_EQ(results.version, "");
  EXPECT_THAT(results.us, ElementsAre(std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace serval::testing
