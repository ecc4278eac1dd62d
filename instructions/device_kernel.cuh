// All instructions of isa.def as the type that the megakernel is compiled for, and what it is compiled for.
#pragma once

#include "instructions/isa_devices.cuh"
#include "instructions/kernels.h"
#include "vm/device/launch_kernel.cuh"

namespace serval::device {

using LlamaIsa = IsaList<StreamList<matvec::Stream>
#define SERVAL_OP(Type, folder, semantics) , Type
#include "instructions/isa.def"
#undef SERVAL_OP
                         >;

// What each kernel of kernels.def is compiled for.
#define SERVAL_KERNEL(Name, rows, head_dim, ring_pages, scratch_kib, activation_rows) \
  struct Name : KernelConfig<rows, ring_pages, scratch_kib, activation_rows> {        \
    static constexpr uint32_t kHeadDim = head_dim;                                    \
    static constexpr KernelTraits kTraits = {                                         \
        #Name, rows, head_dim, ring_pages, scratch_kib, activation_rows};             \
  };
#include "instructions/kernels.def"
#undef SERVAL_KERNEL

// Each in a file of its own (device_kernel.cu.in).
template <class Config, template <class> class Recorder>
DeviceKernel compiled_kernel();

}  // namespace serval::device
