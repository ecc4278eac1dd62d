// What a program computes and for how much: the order of its sums, its heads, and the limits of its state.
// Every record of the program follows it; none repeats it.
#pragma once

#include <cstdint>

#include "vm/base/enum_names.h"
#include "vm/state/limits.h"

namespace serval {

// Order in which a program's products are computed and added up. The bits of a result depend on it. Programs
// whose sums have the same bits belong to one arithmetic class: kTile and kVectorInTileOrder.
enum class Order : uint32_t {
  kVector = 0,             // a vector of each row, added up lane by lane
  kTile = 1,               // tiles of rows (GEMMs)
  kVectorInTileOrder = 2,  // vectors, added up as tiles are; passes of one row, on one device
};
inline constexpr int kNumOrders = 3;

template <>
struct EnumNames<Order> {
  static constexpr EnumName<Order> kTable[] = {{Order::kVector, "vector"},
                                               {Order::kTile, "tile"},
                                               {Order::kVectorInTileOrder, "vector in tile order"}};
};

// True if the order's sums have the bits of tiles.
constexpr bool adds_as_tiles(Order order) {
  return order != Order::kVector;
}

// The attention heads of a device. All three are 0 in a program without attention.
struct HeadShape {
  uint32_t head_dim = 0;  // channels of a head: 64 or 128
  uint32_t q_heads = 0;   // a multiple of kv_heads
  uint32_t kv_heads = 0;

  constexpr uint32_t group_heads() const { return q_heads / kv_heads; }  // query heads of a KV head
  constexpr uint32_t q_cols() const { return q_heads * head_dim; }       // channels of all query heads
  constexpr uint32_t kv_cols() const { return kv_heads * head_dim; }     // channels of all KV heads
  constexpr bool none() const { return head_dim == 0; }
  friend constexpr bool operator==(const HeadShape&, const HeadShape&) = default;
};

// Plain data without padding, which program files store and kernels read as it lies.
struct ProgramShape {
  StateLimits limits;  // of the state blocks that the program runs on
  Order order = Order::kVector;
  HeadShape heads;

  const ProgramShape& shape() const { return *this; }
  friend bool operator==(const ProgramShape&, const ProgramShape&) = default;
};
static_assert(sizeof(ProgramShape) == sizeof(StateLimits) + sizeof(Order) + sizeof(HeadShape));

}  // namespace serval
