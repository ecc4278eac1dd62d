// All instructions of isa.def as the type that the megakernel is compiled for, and what it is compiled for.
#pragma once

#include <type_traits>

#include "instructions/common/tile_order.cuh"
#include "instructions/gate_up_silu/gemm.cuh"
#include "instructions/isa_devices.cuh"
#include "instructions/isa_ops.h"
#include "instructions/kernels.h"
#include "instructions/lm_head/gemm.cuh"
#include "instructions/matvec_part/gemm.cuh"
#include "instructions/matvec_push/gemm.cuh"
#include "instructions/matvec_residual/gemm.cuh"
#include "instructions/project_part/gemm.cuh"
#include "instructions/qkv_project/gemm.cuh"
#include "instructions/qkv_rope/gemm.cuh"
#include "vm/device/launch_kernel.cuh"

namespace serval::device {

// An instruction that a kernel has no code for: programs for it have none.
template <class Op>
struct Absent : Op {};
template <class Op>
struct DeviceOp<Absent<Op>> : GroupOp {
  static __device__ bool in_range(const Op&) { return false; }
  static __device__ void run(const Op&, const Group&) {}
};
template <class Op, class... Left>
using UnlessOneOf = std::conditional_t<(std::is_same_v<Op, Left> || ...), Absent<Op>, Op>;

// What only programs of several devices have is left out of kernels for one.
template <class Op, class... Left>
using OnOneDevice =
    UnlessOneOf<Op, EmbedPush, MatvecPush, ReduceResidual, PushState, ProjectPart, RopeParts, Left...>;
// What only one device computes is left out of kernels for several; the exchange that is measured alone
// begins with an embedding of each rank's own (engine/exchange/exchange_program.h).
template <class Op, class... Left>
using OnRanks = UnlessOneOf<Op, MatvecResidual, MatvecPart, AddParts, Left...>;

template <class Op>
using InMatvecKernels = OnOneDevice<Op, PlannedAttention, PlannedMerge, MatvecPart, AddParts>;
// Without code for models with norms of heads.
template <class Op>
using InPlainKernels =
    OnOneDevice<Op, PlannedAttention, PlannedMerge, QkvProject, QkNormRope, MatvecPart, AddParts>;
// Attention is that of programs of tiles.
template <class Op>
using InTileOrderKernels =
    OnOneDevice<Op, Attention, AttentionMerge, QkvProject, QkNormRope, MatvecPart, AddParts>;
template <class Op>
using InGemmKernels = OnOneDevice<Op, Attention, AttentionMerge>;
template <class Op>
using InMatvecKernelsOfRanks = OnRanks<Op, PlannedAttention, PlannedMerge, ProjectPart, RopeParts>;
template <class Op>
using InPlainKernelsOfRanks =
    OnRanks<Op, PlannedAttention, PlannedMerge, QkvProject, QkNormRope, ProjectPart, RopeParts>;
template <class Op>
using InGemmKernelsOfRanks = OnRanks<Op, Attention, AttentionMerge>;

// What a stream runs of the instructions, of which In says what is left out.
template <class Stream, template <class> class In>
using IsaOf = IsaList<StreamList<Stream>
#define SERVAL_OP(Type, folder, semantics) , In<Type>
#include "instructions/isa.def"
#undef SERVAL_OP
                      >;
using MatvecIsa = IsaOf<matvec::Stream, InMatvecKernels>;
using PlainIsa = IsaOf<matvec::Stream, InPlainKernels>;
using TileOrderIsa = IsaOf<tile_order::Stream, InTileOrderKernels>;
using GemmIsa = IsaOf<gemm::Stream, InGemmKernels>;
using MatvecIsaOfRanks = IsaOf<matvec::Stream, InMatvecKernelsOfRanks>;
using PlainIsaOfRanks = IsaOf<matvec::Stream, InPlainKernelsOfRanks>;
using GemmIsaOfRanks = IsaOf<gemm::Stream, InGemmKernelsOfRanks>;

template <class Base>
using IsaOfRanks =
    std::conditional_t<Base::kMultipliesTiles, GemmIsaOfRanks,
                       std::conditional_t<Base::kTraits.head_norms, MatvecIsaOfRanks, PlainIsaOfRanks>>;

// What each kernel of kernels.def is compiled for.
#define SERVAL_KERNEL(Name, rows, head_dim, head_norms, ring_pages, scratch_kib, activation_rows) \
  struct Name : KernelConfig<rows, ring_pages, scratch_kib, activation_rows> {                    \
    static constexpr uint32_t kHeadDim = head_dim;                                                \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                                  \
    using Isa = std::conditional_t<head_norms != 0, MatvecIsa, PlainIsa>;                         \
  };
#define SERVAL_TILE_ORDER_KERNEL(Name, head_dim, ring_pages, scratch_kib, activation_rows) \
  struct Name : TileOrderConfig<ring_pages, scratch_kib, activation_rows> {                \
    static constexpr uint32_t kHeadDim = head_dim;                                         \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                           \
    using Isa = TileOrderIsa;                                                              \
  };
#define SERVAL_GEMM_KERNEL(Name, rows, tile_rows, head_dim, single_rows, wide_tiles, ring_pages, \
                           scratch_kib)                                                          \
  struct Name : GemmConfig<rows, tile_rows, ring_pages, scratch_kib> {                           \
    static constexpr uint32_t kHeadDim = head_dim;                                               \
    static constexpr bool kHasWideTiles = wide_tiles != 0;                                       \
    static constexpr bool kHasFullTiles = single_rows == 0;                                      \
    static constexpr bool kHasNarrowTiles = tile_rows <= 64 || single_rows != 0;                 \
    static constexpr bool kLeavesOutTokens = tile_rows > 128 && single_rows != 0;                \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                                 \
    using Isa = GemmIsa;                                                                         \
  };
#define SERVAL_RANKS_KERNEL(Name, Base)                                                  \
  struct Name : Base {                                                                   \
    static constexpr bool kHasPeers = true;                                              \
    static constexpr uint32_t kPagesInFlightBeforeInputs =                               \
        kMultipliesTiles ? Base::kPagesInFlightBeforeInputs : kPagesBeforeInputsOfRanks; \
    static constexpr KernelTraits kTraits = kernel_traits::Name;                         \
    using Isa = IsaOfRanks<Base>;                                                        \
  };
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_TILE_ORDER_KERNEL
#undef SERVAL_GEMM_KERNEL
#undef SERVAL_RANKS_KERNEL

// Each in a file of its own (device_kernel.cu.in).
template <class Config, template <class> class Recorder>
DeviceKernel compiled_kernel();

}  // namespace serval::device
