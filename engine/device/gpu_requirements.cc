#include "engine/device/gpu_requirements.h"

#include <algorithm>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval {
namespace {

// The kernels are compiled only for this architecture (cmake/Cuda.cmake).
constexpr int kMajor = 9;
constexpr int kMinor = 0;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The reason why the GPU cannot be used; "" if it can.
std::string obstacle(const GpuReport& r) {
  if (!r.driver_suffices) {
    if (r.driver_version == 0) return "no NVIDIA driver on this machine";
    return fmt::format("the NVIDIA driver supports CUDA {}; needed: {}", version_text(r.driver_version),
                       version_text(r.runtime_version));
  }
  if (r.gpus == 0) return "no NVIDIA GPU on this machine";
  if (r.index >= r.gpus) return fmt::format("no GPU {}; this machine has {}", r.index, r.gpus);
  if (r.major == kMajor && r.minor == kMinor) return "";
  return fmt::format("{} has compute capability {}.{}; needed: {}.{} (Hopper: H100, H200)", r.name, r.major,
                     r.minor, kMajor, kMinor);
}

void refuse_first(const std::vector<GpuGroupReport::Pair>& pairs, const char* reason) {
  if (pairs.empty()) return;
  throw Error(ErrorKind::kRuntime, fmt::format("gpus: GPU {} {} GPU {}; expected GPUs that NVLink connects",
                                               pairs.front().from, reason, pairs.front().to));
}

}  // namespace

void require_usable(const GpuReport& report) {
  const std::string reason = obstacle(report);
  if (!reason.empty()) throw Error(ErrorKind::kRuntime, reason);
}

std::vector<Gpu> gpus_of_ranks(const GpuGroupReport& report) {
  std::vector<Gpu> gpus = report.gpus;
  for (Gpu& gpu : gpus)
    gpu.sms /= static_cast<uint32_t>(std::ranges::count(report.gpus, gpu.index, &Gpu::index));
  const Gpu& first = gpus.front();
  const auto other = std::ranges::find_if(gpus, [&](const Gpu& gpu) { return gpu.sms != first.sms; });
  if (other != gpus.end()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("gpus: GPU {} has {} SMs for a rank, GPU {} has {}; expected as many",
                            other->index, other->sms, first.index, first.sms));
  }
  refuse_first(report.unreachable, "cannot reach the memory of");
  refuse_first(report.not_atomic, "cannot add atomically in the memory of");
  return gpus;
}

std::string name_among(std::span<const Gpu> gpus, const Gpu& gpu) {
  return gpus.size() == 1 ? gpu.name : fmt::format("GPU {} ({})", gpu.index, gpu.name);
}

void require_memory(const std::string& name, const GpuMemoryNeed& need, uint64_t free) {
  constexpr double kGigabyte = 1e9;
  if (need.weights + need.caches + need.others + need.staging <= free) return;
  const auto gigabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / kGigabyte; };
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("{}: weights need {:.2f} GB, the KV cache {:.2f} GB (a smaller context, or fewer "
                          "sequences, needs less), activations {:.2f} GB; limit: {:.2f} GB are free",
                          name, gigabytes(need.weights), gigabytes(need.caches), gigabytes(need.others),
                          gigabytes(free)));
}

}  // namespace serval
