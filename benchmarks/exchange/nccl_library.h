// The few functions of NCCL that a measurement calls, loaded at run time: Serval is built without NCCL.
// Declared as in nccl.h of version 2 (NVIDIA, "NCCL API").
#pragma once

#include <cstddef>
#include <string>

namespace serval {

namespace nccl {
using Communicator = struct ncclComm*;
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr int kBfloat16 = 9;  // ncclDataType_t
inline constexpr int kSum = 0;       // ncclRedOp_t
inline constexpr const char* kLibrary = "libnccl.so.2";
// ncclGetVersion's encoding since 2.9: 10000 × major + 100 × minor + patch.
inline constexpr int kOldestVersion = 22800;
std::string version_text(int version);
}  // namespace nccl

class NcclLibrary {
 public:
  // Throws Error(kRuntime) with one line that begins with the file's name if it cannot be loaded, lacks a
  // function, or is older than kOldestVersion. The library is never unloaded, because it has its own threads.
  explicit NcclLibrary(const std::string& file = nccl::kLibrary);

  int version() const { return version_; }
  // Throws Error(kRuntime) with the function's name and NCCL's message unless `result` is success.
  void check(nccl::Result result, const char* function) const;

  nccl::Result (*comm_init_all)(nccl::Communicator*, int count, const int* gpus) = nullptr;
  nccl::Result (*comm_abort)(nccl::Communicator) = nullptr;
  nccl::Result (*comm_destroy)(nccl::Communicator) = nullptr;
  nccl::Result (*group_start)() = nullptr;
  nccl::Result (*group_end)() = nullptr;
  // from, to, elements, type, operation, communicator, cudaStream_t
  nccl::Result (*all_reduce)(const void*, void*, size_t, int, int, nccl::Communicator, void*) = nullptr;

 private:
  const char* (*error_string)(nccl::Result) = nullptr;
  int version_ = 0;
};

}  // namespace serval
