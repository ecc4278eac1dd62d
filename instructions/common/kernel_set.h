// The GPU kernels that include an instruction's code. A kernel with less code keeps more of it in the
// instruction cache.
#pragma once

namespace serval {

// An instruction that some kernels do not include has a member `static constexpr KernelSet kKernels`.
struct KernelSet {
  bool vectors = true;      // kernels of vector streams
  bool tile_order = true;   // kernels of vector streams in tile order
  bool tiles = true;        // kernels of tile streams
  bool one_device = true;   // kernels for programs of one device
  bool ranks = true;        // kernels for programs of several devices
  bool generates = true;    // kernels for programs that generate
  bool pools = true;        // kernels for programs that pool hidden states
  bool head_norms = false;  // among these, only kernels for models with norms of the heads of Q and K
  bool w8a8 = false;        // among these, only kernels in which weights meet activations in e4m3
};

template <class Op>
constexpr KernelSet kernels_of() {
  if constexpr (requires { Op::kKernels; }) return Op::kKernels;
  return {};
}

}  // namespace serval
