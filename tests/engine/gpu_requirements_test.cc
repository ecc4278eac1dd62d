// Errors and fallbacks if no GPU can run a program. Needs no GPU.
#include "engine/device/gpu_requirements.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/runtime/load_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGigabyte = 1'000'000'000;

GpuReport an_h200() {
  return {.driver_suffices = true,
          .driver_version = 13000,
          .runtime_version = 13000,
          .gpus = 1,
          .index = 0,
          .name = "NVIDIA H200",
          .major = 9,
          .minor = 0};
}

// The line of an error that exits with `exit_code`; "" if there is none.
std::string line(int exit_code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), exit_code);
    return error.what();
  }
  return "";
}

std::string refusal(const std::function<void(GpuReport&)>& change) {
  GpuReport report = an_h200();
  change(report);
  return line(1, [&] { require_usable(report); });
}

TEST(GpuRequirements, AcceptAHopperGpu) {
  EXPECT_EQ(refusal([](GpuReport&) {}), "");
  // A runtime that is newer than the driver, within CUDA's minor version compatibility.
  EXPECT_EQ(refusal([](GpuReport& r) { r.runtime_version = 13020; }), "");
}

TEST(GpuRequirements, NameADriverThatIsMissingOrTooOld) {
  const auto supports = [](int version) {
    return [=](GpuReport& r) {
      r.driver_suffices = false;
      r.driver_version = version;
      r.gpus = 0;
    };
  };
  EXPECT_EQ(refusal(supports(0)), "no NVIDIA driver on this machine");
  EXPECT_EQ(refusal(supports(12040)), "the NVIDIA driver supports CUDA 12.4; needed: 13.0");
}

TEST(GpuRequirements, NameAGpuThatIsMissing) {
  EXPECT_EQ(refusal([](GpuReport& r) { r.gpus = 0; }), "no NVIDIA GPU on this machine");
  EXPECT_EQ(refusal([](GpuReport& r) { r.index = 1; }), "no GPU 1; this machine has 1");
}

TEST(GpuRequirements, NameAGpuThatIsOlderOrNewer) {
  const auto is = [](const char* name, int major, int minor) {
    return [=](GpuReport& r) {
      r.name = name;
      r.major = major;
      r.minor = minor;
    };
  };
  EXPECT_EQ(refusal(is("NVIDIA A100-SXM4-80GB", 8, 0)),
            "NVIDIA A100-SXM4-80GB has compute capability 8.0; needed: 9.0 (Hopper: H100, H200)");
  EXPECT_EQ(refusal(is("NVIDIA B200", 10, 0)),
            "NVIDIA B200 has compute capability 10.0; needed: 9.0 (Hopper: H100, H200)");
}

TEST(GpuRequirements, SayWhatNeedsMoreMemoryThanIsFree) {
  const GpuMemoryNeed need = {
      .weights = 16 * kGigabyte, .caches = 4 * kGigabyte, .others = kGigabyte, .staging = kGigabyte};
  EXPECT_EQ(line(3, [&] { require_memory("NVIDIA H100", need, 22 * kGigabyte); }), "");
  EXPECT_THAT(line(3, [&] { require_memory("NVIDIA H100", need, 22 * kGigabyte - 1); }),
              AllOf(HasSubstr("NVIDIA H100: weights need 16.00 GB, the KV cache 4.00 GB"),
                    HasSubstr("activations 1.00 GB; limit: 22.00 GB are free")));
}

TEST(GpuRequirements, NameTheGpuOfSeveralWhoseMemoryIsTooSmall) {
  const std::vector<Gpu> gpus = {{0, "NVIDIA H200", 132}, {3, "NVIDIA H200", 132}};
  EXPECT_THAT(line(3, [&] { require_memory(name_among(gpus, gpus[1]), {.weights = 2}, 1); }),
              HasSubstr("GPU 3 (NVIDIA H200): weights need "));
  EXPECT_EQ(name_among(std::span(gpus).first(1), gpus[0]), "NVIDIA H200");
}

GpuGroupReport a_group_of(const std::vector<int>& indices) {
  GpuGroupReport report;
  for (const int index : indices) report.gpus.push_back({index, "NVIDIA H200", 132});
  return report;
}

std::string refusal(const GpuGroupReport& report) {
  return line(1, [&] { gpus_of_ranks(report); });
}

TEST(GpuRequirements, AcceptAlikeGpusThatReachEachOther) {
  for (const std::vector<int>& indices : {std::vector{0}, {0, 2}, {3, 1, 0, 2}}) {
    const std::vector<Gpu> gpus = gpus_of_ranks(a_group_of(indices));
    ASSERT_EQ(gpus.size(), indices.size());
    for (size_t rank = 0; rank < gpus.size(); ++rank) {
      EXPECT_EQ(gpus[rank].index, indices[rank]);
      EXPECT_EQ(gpus[rank].sms, 132U);
    }
  }
}

TEST(GpuRequirements, GiveRanksOnOneGpuAShareOfItsSmsEach) {
  for (const Gpu& gpu : gpus_of_ranks(a_group_of({0, 0}))) EXPECT_EQ(gpu.sms, 66U);
  for (const Gpu& gpu : gpus_of_ranks(a_group_of({1, 0, 1, 0}))) EXPECT_EQ(gpu.sms, 66U);
}

TEST(GpuRequirements, NameGpusThatHaveNotAsManySms) {
  GpuGroupReport report = a_group_of({0, 1, 2, 3});
  report.gpus[2].sms = 114;
  EXPECT_EQ(refusal(report), "gpus: GPU 2 has 114 SMs for a rank, GPU 0 has 132; expected as many");
  EXPECT_EQ(refusal(a_group_of({0, 0, 1, 2})),
            "gpus: GPU 1 has 132 SMs for a rank, GPU 0 has 66; expected as many");
}

TEST(GpuRequirements, NameGpusThatDoNotReachEachOther) {
  GpuGroupReport report = a_group_of({0, 1});
  report.unreachable = {{1, 0}};
  EXPECT_EQ(refusal(report),
            "gpus: GPU 1 cannot reach the memory of GPU 0; expected GPUs that NVLink connects");
}

// Over PCIe, GPUs may access each other's memory without atomic additions, and signals would be lost.
TEST(GpuRequirements, NameGpusWhoseSignalsToEachOtherAreNotAtomic) {
  GpuGroupReport report = a_group_of({0, 1});
  report.not_atomic = {{0, 1}, {1, 0}};
  EXPECT_EQ(refusal(report),
            "gpus: GPU 0 cannot add atomically in the memory of GPU 1; expected GPUs that NVLink connects");
}

// The backend that `auto` chooses with these functions instead of the real ones, and its notice.
std::string taken(const std::function<void()>& check, const std::function<void()>& load,
                  bool is_expected = true) {
  std::string name;
  const auto make = [&](const char* which) {
    name = which;
    return std::unique_ptr<Backend>();
  };
  const MakeBackend device = [&] { return load(), make("device"); };
  const MakeBackend host = [&] { return make("host"); };
  const ChosenBackend chosen = device_or_host(check, device, host, is_expected);
  return chosen.notice.empty() ? name : name + "; " + chosen.notice;
}

constexpr auto kFine = [] {};

TEST(AutoBackend, TakesTheGpuIfItCan) {
  EXPECT_EQ(taken([] { require_usable(an_h200()); }, kFine), "device");
}

TEST(AutoBackend, TakesTheHostAndSaysWhy) {
  const auto old_gpu = [] {
    GpuReport report = an_h200();
    report.major = 8;
    require_usable(report);
  };
  const auto little_memory = [] { require_memory("NVIDIA H100", {.weights = 2}, 1); };
  EXPECT_THAT(taken(old_gpu, kFine),
              HasSubstr("host; running on the CPU: NVIDIA H200 has compute capability 8.0"));
  EXPECT_THAT(taken(kFine, little_memory), HasSubstr("host; running on the CPU: NVIDIA H100: weights need"));
  EXPECT_EQ(taken(old_gpu, kFine, false), "host") << "no notice on a machine without a GPU";
}

TEST(AutoBackend, ReportsOtherErrors) {
  const auto damaged = [] { throw Error(ErrorKind::kRuntime, "model.safetensors: damaged"); };
  EXPECT_EQ(line(1, [&] { taken(kFine, damaged); }), "model.safetensors: damaged");
}

}  // namespace
}  // namespace serval
