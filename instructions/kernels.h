// The configurations of the device interpreter's kernels: kernels.def as a table. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "instructions/common/kernel_set.h"
#include "vm/program.h"

namespace serval {

// The weights of programs for which a kernel is compiled: bf16 only; some in e4m3; some in 4-bit integers,
// and perhaps others in e4m3; some in e4m3 that meet activations in e4m3.
enum class WeightCodes : uint8_t { kNone, kE4M3, kInt4, kW8A8 };
// The codes of programs with weights of these types, whose activations have 16 bits.
constexpr WeightCodes codes_of(std::initializer_list<DType> types) {
  WeightCodes codes = WeightCodes::kNone;
  for (const DType type : types) {
    if (is_int4(type)) return WeightCodes::kInt4;
    if (type == DType::kE4M3) codes = WeightCodes::kE4M3;
  }
  return codes;
}

// The fields are those of kernels.def.
struct KernelTraits {
  const char* name;
  uint32_t rows;
  uint32_t head_dim;
  bool head_norms;
  uint32_t ring_pages;
  uint32_t scratch_kib;
  uint32_t activation_rows;
  uint32_t tile_rows;  // 0: multiplies with vectors
  bool of_ranks;       // for programs of several devices instead of one
  bool wide_tiles;
  bool single_rows;
  bool tile_order;  // for programs of one row in tile order
  WeightCodes codes;
  bool pools;  // for programs that pool hidden states instead of those that generate
};

// Limit of pages in flight before a record's inputs are ready, in kernels of vectors for several devices: a
// layer's exchange has more rounds of polls than a layer on one GPU (docs/several_gpus.md).
inline constexpr uint32_t kPagesBeforeInputsOfRanks = 2;

// True if the kernel includes the code of instructions with this set.
constexpr bool has_code(const KernelTraits& kernel, const KernelSet& set) {
  const bool of_order = kernel.tile_rows > 0 ? set.tiles : kernel.tile_order ? set.tile_order : set.vectors;
  return of_order && (kernel.of_ranks ? set.ranks : set.one_device) &&
         (kernel.pools ? set.pools : set.generates) && (kernel.head_norms || !set.head_norms) &&
         (kernel.codes == WeightCodes::kW8A8 || !set.w8a8);
}

namespace kernel_traits {
constexpr KernelTraits of_ranks(KernelTraits base, const char* name) {
  base.name = name;
  base.of_ranks = true;
  return base;
}
constexpr KernelTraits that_pools(KernelTraits base, const char* name) {
  base.name = name;
  base.pools = true;
  return base;
}
constexpr KernelTraits of_codes(KernelTraits base, const char* name, WeightCodes codes, uint32_t ring_pages) {
  base.name = name;
  base.codes = codes;
  base.ring_pages = ring_pages;
  return base;
}
constexpr KernelTraits without_wide_tiles(KernelTraits base, const char* name, WeightCodes codes) {
  base.wide_tiles = false;
  return of_codes(base, name, codes, base.ring_pages);
}
#define SERVAL_E4M3_KERNEL(Name, Base, ring_pages) \
  inline constexpr KernelTraits Name = of_codes(Base, #Name, WeightCodes::kE4M3, ring_pages);
#define SERVAL_INT4_KERNEL(Name, Base, ring_pages) \
  inline constexpr KernelTraits Name = of_codes(Base, #Name, WeightCodes::kInt4, ring_pages);
#define SERVAL_KERNEL(Name, rows, head_dim, head_norms, ring_pages, scratch_kib, activation_rows) \
  inline constexpr KernelTraits Name = {                                                          \
      #Name, rows,  head_dim, head_norms != 0, ring_pages, scratch_kib,        activation_rows,   \
      0,     false, false,    false,           false,      WeightCodes::kNone, false};
#define SERVAL_TILE_ORDER_KERNEL(Name, head_dim, ring_pages, scratch_kib, activation_rows) \
  inline constexpr KernelTraits Name = {                                                   \
      #Name, 1,     head_dim, false, ring_pages, scratch_kib,        activation_rows,      \
      0,     false, false,    false, true,       WeightCodes::kNone, false};
#define SERVAL_TILE_KERNEL(Name, rows, tile_rows, head_dim, single_rows, wide_tiles, ring_pages, \
                           scratch_kib)                                                          \
  inline constexpr KernelTraits Name = {#Name,                                                   \
                                        rows,                                                    \
                                        head_dim,                                                \
                                        true,                                                    \
                                        ring_pages,                                              \
                                        scratch_kib,                                             \
                                        0,                                                       \
                                        tile_rows,                                               \
                                        false,                                                   \
                                        wide_tiles != 0,                                         \
                                        single_rows != 0,                                        \
                                        false,                                                   \
                                        WeightCodes::kNone,                                      \
                                        false};
#define SERVAL_E4M3_TILE_KERNEL(Name, Base) \
  inline constexpr KernelTraits Name = of_codes(Base, #Name, WeightCodes::kE4M3, Base.ring_pages);
#define SERVAL_INT4_TILE_KERNEL(Name, Base) \
  inline constexpr KernelTraits Name = without_wide_tiles(Base, #Name, WeightCodes::kInt4);
#define SERVAL_W8A8_TILE_KERNEL(Name, Base) \
  inline constexpr KernelTraits Name = of_codes(Base, #Name, WeightCodes::kW8A8, Base.ring_pages);
#define SERVAL_RANKS_KERNEL(Name, Base) inline constexpr KernelTraits Name = of_ranks(Base, #Name);
#define SERVAL_POOLING_KERNEL(Name, Base) inline constexpr KernelTraits Name = that_pools(Base, #Name);
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
}  // namespace kernel_traits

// In the order of kernels.def.
std::span<const KernelTraits> kernels();
// The kernel that takes the most rows, for programs of `ranks` devices that generate.
const KernelTraits& widest_kernel(uint32_t ranks);
// True if the kernel for tile programs of `rows` rows and heads of head_dim, with weights in such codes,
// supports wide tiles of gate and up.
bool takes_wide_tiles(uint32_t rows, uint32_t head_dim, WeightCodes codes);
// Fewest ring pages among the kernels of tiles, of vectors with weights in such codes, and in tile order.
uint32_t tile_ring_pages();
uint32_t ring_pages_of(WeightCodes codes);
uint32_t tile_order_ring_pages();
// True if all `cols` columns of a pass's rows fit into shared memory at once.
bool has_room_for_row(const KernelTraits& kernel, uint32_t cols);
// True if the kernel has code for all instructions of the program, in the passes that it supports.
bool runs(const KernelTraits& kernel, const Program& program);

}  // namespace serval
