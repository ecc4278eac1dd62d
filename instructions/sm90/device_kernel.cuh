// The instructions of isa.def as the type that the megakernel is compiled for, and the kernels'
// configurations.
#pragma once

#include <type_traits>

#include "instructions/isa_devices.cuh"
#include "instructions/isa_ops.h"
#include "instructions/kernels.h"
#include "instructions/product/epilogues/sm90/residual_tile.cuh"
#include "instructions/product/formats/bf16/operands.cuh"
#include "instructions/product/formats/e4m3/operands.cuh"
#include "instructions/product/formats/int4/operands.cuh"
#include "instructions/product/formats/int4/tiles.cuh"
#include "instructions/product/formats/w8a8/operands.cuh"
#include "instructions/product/orders/sm90/tile_stream.cuh"
#include "instructions/product/orders/vector_in_tile_order.cuh"
#include "instructions/product/orders/vector_stream.cuh"
#include "vm/device/sm90/launch_kernel.cuh"

namespace serval::device {

// Replaces an instruction for which a kernel has no code.
template <class Op>
struct NotCompiled : Op {};
template <class Op>
struct DeviceOp<NotCompiled<Op>> : GroupOp {
  static __device__ bool in_range(const Op&, const ProgramShape&) { return false; }
  static __device__ void run(const Op&, const Group&) {}
};

// The instruction set of a kernel whose products run on Stream.
template <class Stream, const KernelTraits& kTraits>
using KernelIsa = IsaList<StreamList<Stream>
#define SERVAL_OP(Type, folder, semantics) \
  , std::conditional_t<has_code(kTraits, kernels_of<Type>()), Type, NotCompiled<Type>>
#include "instructions/isa.def"
#undef SERVAL_OP
                          >;

// Configuration of each kernel of kernels.def.
#define SERVAL_KERNEL(Name, rows, head_dim, head_norms, ring_pages, scratch_kib, activation_rows) \
  struct Name : KernelConfig<rows, ring_pages, scratch_kib, activation_rows> {                    \
    static constexpr uint32_t kHeadDim = head_dim;                                                \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                                  \
    using Stream = vector_stream::Stream<formats::Bf16>;                                          \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                                           \
  };
#define SERVAL_E4M3_KERNEL(Name, Base, ring_pages)                      \
  struct Name : E4M3Config<Base, ring_pages> {                          \
    static constexpr KernelTraits kTraits = kernel_traits::Name;        \
    using Stream = vector_stream::Stream<formats::Bf16, formats::E4M3>; \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                 \
  };
#define SERVAL_INT4_KERNEL(Name, Base, ring_pages)                                                 \
  struct Name : Int4Config<Base, ring_pages> {                                                     \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                                   \
    using Config = Int4Config<Base, ring_pages>;                                                   \
    using Stream =                                                                                 \
        vector_stream::Stream<formats::Bf16, formats::E4M3, formats::Int4<Config::kPanelsOfPage>>; \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                                            \
  };
#define SERVAL_TILE_ORDER_KERNEL(Name, head_dim, ring_pages, scratch_kib, activation_rows) \
  struct Name : TileOrderConfig<ring_pages, scratch_kib, activation_rows> {                \
    static constexpr uint32_t kHeadDim = head_dim;                                         \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                           \
    using Stream = tile_order::Stream<formats::Bf16>;                                      \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                                    \
  };
#define SERVAL_TILE_KERNEL(Name, rows, tile_rows, head_dim, single_rows, wide_tiles, ring_pages, \
                           scratch_kib)                                                          \
  struct Name : TileConfig<rows, tile_rows, ring_pages, scratch_kib> {                           \
    static constexpr uint32_t kHeadDim = head_dim;                                               \
    static constexpr bool kHasWideTiles = wide_tiles != 0;                                       \
    static constexpr bool kHasFullTiles = single_rows == 0;                                      \
    static constexpr bool kHasNarrowTiles = tile_rows <= 64 || single_rows != 0;                 \
    static constexpr bool kLeavesOutTokens = tile_rows > 128 && single_rows != 0;                \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                                 \
    using Stream = tile_stream::Stream<formats::Bf16>;                                           \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                                          \
  };
#define SERVAL_E4M3_TILE_KERNEL(Name, Base)                           \
  struct Name : Base {                                                \
    static constexpr bool kHasE4M3 = true;                            \
    static constexpr KernelTraits kTraits = kernel_traits::Name;      \
    using Stream = tile_stream::Stream<formats::Bf16, formats::E4M3>; \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;               \
  };
#define SERVAL_INT4_TILE_KERNEL(Name, Base)                                   \
  struct Name : Base {                                                        \
    static constexpr bool kHasE4M3 = true;                                    \
    static constexpr bool kHasWideTiles = false;                              \
    static constexpr KernelTraits kTraits = kernel_traits::Name;              \
    using Stream = tile_stream::Stream<formats::Bf16, formats::CodesOfTiles>; \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;                       \
  };
#define SERVAL_W8A8_TILE_KERNEL(Name, Base)                           \
  struct Name : Base {                                                \
    static constexpr bool kHasE4M3 = true;                            \
    static constexpr bool kHasInputScales = true;                     \
    static constexpr uint32_t kPartialBytes = 25 * 1024;              \
    static constexpr KernelTraits kTraits = kernel_traits::Name;      \
    using Stream = tile_stream::Stream<formats::Bf16, formats::W8A8>; \
    using Isa = KernelIsa<Stream, kernel_traits::Name>;               \
  };
#define SERVAL_RANKS_KERNEL(Name, Base)                                                  \
  struct Name : Base {                                                                   \
    static constexpr bool kHasPeers = true;                                              \
    static constexpr uint32_t kPagesInFlightBeforeInputs =                               \
        kMultipliesTiles ? Base::kPagesInFlightBeforeInputs : kPagesBeforeInputsOfRanks; \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                         \
    using Isa = KernelIsa<typename Base::Stream, kernel_traits::Name>;                   \
  };
#define SERVAL_POOLING_KERNEL(Name, Base)                              \
  struct Name : Base {                                                 \
    static constexpr KernelTraits kTraits = kernel_traits::Name;       \
    using Isa = KernelIsa<typename Base::Stream, kernel_traits::Name>; \
  };
#include "instructions/sm90/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_E4M3_KERNEL
#undef SERVAL_INT4_KERNEL
#undef SERVAL_TILE_ORDER_KERNEL
#undef SERVAL_TILE_KERNEL
#undef SERVAL_E4M3_TILE_KERNEL
#undef SERVAL_INT4_TILE_KERNEL
#undef SERVAL_W8A8_TILE_KERNEL
#undef SERVAL_RANKS_KERNEL
#undef SERVAL_POOLING_KERNEL

// Each is defined in its own file (device_kernel.cu.in).
template <class Config, template <class> class Recorder>
DeviceKernel compiled_kernel();

}  // namespace serval::device
