#include "benchmarks/exchange/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "vm/base/error.h"

namespace serval {
namespace {

// dlerror() begins with the file's name only if the file was not found.
std::string loader_error(const std::string& file) {
  const char* error = dlerror();
  const std::string what = error == nullptr ? "cannot be loaded" : error;
  return what.starts_with(file) ? what : file + ": " + what;
}

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw Error(ErrorKind::kRuntime, fmt::format("{}: has no function {}", file, name));
  function = reinterpret_cast<Function>(found);
}

}  // namespace

std::string nccl::version_text(int version) {
  constexpr int kNewForm = 10000, kOldForm = 1000, kMinor = 100;
  const int major_unit = version >= kNewForm ? kNewForm : kOldForm;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / kMinor, version % kMinor);
}

NcclLibrary::NcclLibrary(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw Error(ErrorKind::kRuntime, loader_error(file));
  nccl::Result (*get_version)(int*) = nullptr;
  find(library, file, "ncclGetVersion", get_version);
  find(library, file, "ncclGetErrorString", error_string);
  check(get_version(&version_), "ncclGetVersion");
  if (version_ < nccl::kOldestVersion) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: version {}; expected {} or later", file, nccl::version_text(version_),
                            nccl::version_text(nccl::kOldestVersion)));
  }
  find(library, file, "ncclCommInitAll", comm_init_all);
  find(library, file, "ncclCommAbort", comm_abort);
  find(library, file, "ncclCommDestroy", comm_destroy);
  find(library, file, "ncclGroupStart", group_start);
  find(library, file, "ncclGroupEnd", group_end);
  find(library, file, "ncclAllReduce", all_reduce);
}

void NcclLibrary::check(nccl::Result result, const char* function) const {
  if (result != nccl::kSuccess)
    throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", function, error_string(result)));
}

}  // namespace serval
