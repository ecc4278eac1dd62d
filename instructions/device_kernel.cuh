// All instructions of isa.def as the type that the megakernel is compiled for, and what it is compiled for.
#pragma once

#include "instructions/isa_devices.cuh"
#include "vm/device/launch_kernel.cuh"

namespace serval::device {

using LlamaIsa = IsaList<StreamList<matvec::Stream>
#define SERVAL_OP(Type, folder, semantics) , Type
#include "instructions/isa.def"
#undef SERVAL_OP
                         >;

// kHeadDim: of attention; 0: any.
struct OneRowHeads64 : OneRow {
  static constexpr uint32_t kHeadDim = 64;
};
struct OneRowHeads128 : OneRowMoreScratch {
  static constexpr uint32_t kHeadDim = 128;
};
struct FourRows : ManyRows {
  static constexpr uint32_t kRows = 4;
  static constexpr uint32_t kHeadDim = 0;
};
struct EightRows : ManyRows {
  static constexpr uint32_t kRows = 8;
  static constexpr uint32_t kHeadDim = 0;
};
struct AnyPass : ManyRows {
  static constexpr uint32_t kHeadDim = 0;
};

// Each in a file of its own (device_kernel.cu.in).
template <class Config, template <class> class Recorder>
DeviceKernel compiled_kernel();

}  // namespace serval::device
