// A libnccl.so.2 without a GPU, controlled by environment variables. FAKE_NCCL_VERSION is the version that it
// reports. The function named by FAKE_NCCL_HANGS never returns, that of FAKE_NCCL_FAILS fails, and that of
// FAKE_NCCL_CRASHES ends the process, each from its FAKE_NCCL_FROM-th call on. That of FAKE_NCCL_SLOW takes
// 400 ms. Each call appends a line to the file FAKE_NCCL_LOG.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unistd.h>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int otherwise) {
  const std::string value = variable(name);
  return value.empty() ? otherwise : std::stoi(value);
}

int call(const std::string& function) {
  static std::map<std::string, int> calls;
  if (std::FILE* log = std::fopen(variable("FAKE_NCCL_LOG").c_str(), "a")) {
    std::fprintf(log, "%s\n", function.c_str());
    std::fclose(log);
  }
  constexpr int kSlowMicroseconds = 400000;
  if (variable("FAKE_NCCL_SLOW") == function) usleep(kSlowMicroseconds);
  if (++calls[function] < number("FAKE_NCCL_FROM", 1)) return 0;
  if (variable("FAKE_NCCL_CRASHES") == function) std::abort();
  while (variable("FAKE_NCCL_HANGS").find(function) != std::string::npos) pause();
  constexpr int kInvalidUsage = 5;
  return variable("FAKE_NCCL_FAILS") == function ? kInvalidUsage : 0;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  constexpr int kNewEnough = 22803;
  *version = number("FAKE_NCCL_VERSION", kNewEnough);
  return 0;
}
const char* ncclGetErrorString(int result) {
  return result == 0 ? "no error" : "invalid usage";
}
int ncclCommInitAll(void** communicators, int count, const int* gpus) {
  for (int i = 0; i < count; ++i) communicators[i] = new int(gpus[i]);
  return call("ncclCommInitAll");
}
int ncclCommAbort(void*) {
  return call("ncclCommAbort");
}
int ncclCommDestroy(void*) {
  return call("ncclCommDestroy");
}
int ncclGroupStart() {
  return call("ncclGroupStart");
}
#ifndef SERVAL_FAKE_NCCL_PART
int ncclGroupEnd() {
  return call("ncclGroupEnd");
}
#endif
int ncclAllReduce(const void*, void*, std::size_t, int, int, void*, void*) {
  return call("ncclAllReduce");
}

}  // extern "C"
