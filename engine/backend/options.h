// Options for all backends; each backend reads those that concern it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/compile/compile_model.h"
#include "engine/compile/program_set.h"
#include "vm/base/enum_names.h"

namespace serval {

enum class BackendKind : uint8_t {
  kAuto,    // the device if it can run programs, else the host
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
  // Host and device: row limits of the programs that are made besides the one for limits.pass_rows(), each
  // below it. All passes with more rows use that one. Programs for up to kDefaultRows rows multiply vectors;
  // larger ones multiply tiles if limits.tile_rows asks for it.
  std::vector<uint32_t> row_classes = {};
  CompileTime programs = CompileTime::kAtOnce;  // host and device
  uint32_t sms = 0;             // to compile for; 0: all SMs of the GPU; on the host, one for each thread
  uint32_t threads = 0;         // CPU threads of host and torch; 0: one for each core, or LibTorch's choice
  double stall_timeout_s = 30;  // host and device: a launch without progress for this long is a fault
  // Host: runs on one thread in the order that this seed gives (vm/host/replay.h), to find or reproduce a
  // race.
  std::optional<uint64_t> interleaving = {};
  // Host: before each pass, runs the program in the checked mode on the data that the pass will touch
  // (checked_passes.h), interleaved by the seed `interleaving`, or 0. A launch then has one pass.
  bool checked = false;
  std::vector<int> gpus = {0};  // device: CUDA's index of each rank's GPU, limits.ranks of them
};

}  // namespace serval
