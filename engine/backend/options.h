// What making a backend takes, whichever it is; each reads what concerns it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/compile/compile_model.h"
#include "engine/compile/program_set.h"
#include "vm/base/enum_names.h"

namespace serval {

enum class BackendKind : uint8_t {
  kAuto,    // the device where one can run programs, else the host
  kDevice,  // GPUs
  kHost,    // CPU threads
  kTorch,   // the LibTorch reference
};
template <>
struct EnumNames<BackendKind> {
  static constexpr EnumName<BackendKind> kTable[] = {{BackendKind::kAuto, "auto"},
                                                     {BackendKind::kDevice, "device"},
                                                     {BackendKind::kHost, "host"},
                                                     {BackendKind::kTorch, "torch"}};
};

struct BackendOptions {
  ProgramLimits limits = {};
  ScheduleOptions schedule = {};
  // Host and device: most rows of the passes that have a program of their own, each below limits.pass_rows();
  // all other passes share one. Those of up to kDefaultRows multiply with vectors, the others tiles where
  // limits.tile_rows asks for them.
  std::vector<uint32_t> row_classes = {};
  CompileTime programs = CompileTime::kAtOnce;  // host and device
  uint32_t sms = 0;             // to compile for; 0: all of a GPU's, as many as the host's threads
  uint32_t threads = 0;         // of the CPU: host and torch; 0: one for each core, LibTorch's choice
  double stall_timeout_s = 30;  // host and device: a launch without progress for this long is a fault
  // Host: runs on one thread in the order that this seed picks (vm/host/replay.h), to find or repeat a race.
  std::optional<uint64_t> interleaving = {};
  // Host: before each pass, runs the program in the checked mode over what the pass will touch
  // (checked_passes.h), interleaved as `interleaving` says, or 0. A launch then has one pass.
  bool checked = false;
  std::vector<int> gpus = {0};  // device: CUDA's index of each rank's, limits.ranks of them
};

}  // namespace serval
