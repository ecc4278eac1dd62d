#include "engine/backend/device_fault.h"

#include <new>

#include "gtest/gtest.h"

namespace serval {
namespace {

Error error_from(ErrorKind kind) {
  try {
    fault_on_error([&] { throw Error(kind, "CUDA: cudaEventQuery: an illegal memory access"); });
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::kUsage, "nothing was thrown"};
}

TEST(DeviceFault, AnErrorOfALaunchIsAFaultWithTheSameLine) {
  const Error fault = error_from(ErrorKind::kRuntime);
  EXPECT_EQ(fault.kind(), ErrorKind::kDeviceFault);
  EXPECT_STREQ(fault.what(), "CUDA: cudaEventQuery: an illegal memory access");
}

TEST(DeviceFault, OutOfMemoryAndBadRequestsKeepTheirKinds) {
  for (const ErrorKind kind : {ErrorKind::kOutOfMemory, ErrorKind::kUsage, ErrorKind::kDeviceFault})
    EXPECT_EQ(error_from(kind).kind(), kind);
  EXPECT_THROW(fault_on_error([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace serval
