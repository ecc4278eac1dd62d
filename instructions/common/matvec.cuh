// Base of the instructions that multiply streamed weights with the pass's activations: qkv_rope,
// matvec_residual, gate_up_silu, lm_head.
//
// Weights come as page images (vm/device/page_image.h), one page a warp. A page is the 16-row operand of the
// products; the other operand's 8 columns are 4 rows of the pass, each as two halves of the chunk's columns.
// A consumer warp takes its page into registers as soon as it has landed and frees it, and only then waits
// for the activations: eight pages more are under way than the ring holds.
//
// Where the activations of all rows fit in shared memory, units are streamed one after the other, and a
// unit's pages go to different warps ("resident"). Where they do not, eight units at a time are streamed
// chunk by chunk, each unit by one warp, and a chunk of activations is dropped after its use. Either way an
// output is the sum over chunks, in order, of a sum over the chunk's products whose order is fixed.
#pragma once

#include <cstdint>

#include "instructions/common/footprint.h"
#include "vm/device/activation_image.h"
#include "vm/device/op.cuh"
#include "vm/device/page_image.h"
#include "vm/device/roles.cuh"

namespace serval::device {

namespace matvec {

inline constexpr uint32_t kRowsOfTile = 4;  // rows of the pass in one 8-column operand
inline constexpr uint32_t kProducts = page_image::kHalfCols / page_image::kProductCols;  // of a whole page
inline constexpr uint32_t kPairBytes = 64;  // of a row's half that two products cover
inline constexpr uint32_t kChains = 4;      // independent sums, so that products overlap

static_assert(activation_image::kRowBytes == kActivationRowBytes, "slots hold rows of images");

// What the activations are: bf16 rows as they are, or fp32 rows to be normalised.
struct Input {
  const std::byte* plain;  // an activation image, or null
  const float* residual;   // [16, cols], or null
  const uint16_t* norm;    // [cols], with residual
  float epsilon;
  bool logits_only;  // only rows that want logits have results

  __device__ __forceinline__ bool wants(const PassRow& row) const {
    return logits_only ? row_wants_logits(row) : row_is_active(row);
  }
};

// How an instruction is cut up; every role computes the same.
struct Plan {
  Input input;
  uint32_t units;
  uint32_t matrices;  // that a unit has rows of: 1 or 2
  uint32_t chunks;    // of columns
  uint32_t cols;
  uint32_t slots;      // unit_slots()
  uint32_t last_half;  // columns of a half of the last chunk
  bool resident;

  __device__ __forceinline__ uint32_t half_cols(uint32_t chunk) const {
    return chunk + 1 < chunks ? page_image::kHalfCols : last_half;
  }
  __device__ __forceinline__ uint32_t unit_pages() const { return matrices * chunks; }
  __device__ __forceinline__ uint32_t pages() const { return units * unit_pages(); }
  __device__ __forceinline__ uint32_t blocks() const { return (units + kConsumerWarps - 1) / kConsumerWarps; }
  __device__ __forceinline__ uint32_t block_units(uint32_t block) const {
    const uint32_t left = units - block * kConsumerWarps;
    return left < kConsumerWarps ? left : kConsumerWarps;
  }
  // Chunks of activations that are brought in.
  __device__ __forceinline__ uint32_t activation_chunks() const {
    return units == 0 ? 0 : resident ? chunks : blocks() * chunks;
  }
  // Partial results of a unit that are summed by the storer, for each matrix.
  __device__ __forceinline__ uint32_t parts() const { return resident ? chunks : 1; }
  __device__ __forceinline__ uint32_t arrivals() const { return resident ? unit_pages() : 1; }
};

// Where a warp has a unit of its own, all units of a block must have room: a warp that waited for it would
// hold a page that another needs.
static_assert(kPartialBytes >= 2 * kConsumerWarps * kMaxRows * kUnitRows * sizeof(float));

// Units whose partial results are in shared memory at once: a power of two.
__device__ __forceinline__ uint32_t unit_slots(const Launch& launch, uint32_t matrices, uint32_t parts) {
  const uint32_t fit = kPartialBytes / (matrices * parts * launch.row_slots * kUnitRows * sizeof(float));
  return fit < kUnitSlots ? 1u << (31 - __clz(static_cast<int>(fit))) : kUnitSlots;
}

// The sum of a tile's columns: lane l has row l / 4 of the unit for row l % 4 of the tile.
__device__ __forceinline__ float fold(const float (&d)[kChains][4]) {
  return ((d[0][0] + d[1][0]) + (d[2][0] + d[3][0])) + ((d[0][3] + d[1][3]) + (d[2][3] + d[3][3]));
}

// One tile of a page that is in registers. The activations of the next four products are under way while four
// are computed; the order is pinned, because the compiler would rather save the registers.
__device__ __forceinline__ float multiply_registers(const uint4 (&w)[kProducts], uint32_t x) {
  float d[kChains][4] = {};
  uint4 even = ptx::shared_load(x), odd = ptx::shared_load(x + kPairBytes);
#pragma unroll
  for (uint32_t j = 0; j < kProducts; j += kChains) {
    uint4 next_even = even, next_odd = odd;
    if (j + kChains < kProducts) {
      next_even = ptx::shared_load(x + (j / 2 + 2) * kPairBytes);
      next_odd = ptx::shared_load(x + (j / 2 + 3) * kPairBytes);
    }
    ptx::mma_16x8x16(d[0], w[j], even.x, even.y);
    ptx::mma_16x8x16(d[1], w[j + 1], even.z, even.w);
    ptx::mma_16x8x16(d[2], w[j + 2], odd.x, odd.y);
    ptx::mma_16x8x16(d[3], w[j + 3], odd.z, odd.w);
    even = next_even;
    odd = next_odd;
  }
  return fold(d);
}

// One tile of a page of any size, from shared memory.
__device__ __forceinline__ float multiply_shared(uint32_t w, uint32_t products, uint32_t x) {
  float d[kChains][4] = {};
  const auto two = [&](uint32_t j, float(&even)[4], float(&odd)[4]) {
    const uint4 pair = ptx::shared_load(x + j / 2 * kPairBytes);
    ptx::mma_16x8x16(even, ptx::shared_load(w + j * page_image::kProductBytes), pair.x, pair.y);
    ptx::mma_16x8x16(odd, ptx::shared_load(w + (j + 1) * page_image::kProductBytes), pair.z, pair.w);
  };
#pragma unroll 1
  for (uint32_t j = 0; j < products; j += kChains) {
    two(j, d[0], d[1]);
    if (j + 2 < products) two(j + 2, d[2], d[3]);
  }
  return fold(d);
}

// Calls take(row, tile(x)) for every row that may be active, where `x` is the address of this lane's column
// of the row's tile.
template <class Tile, class Take>
__device__ __forceinline__ void for_tiles(const ConsumerRole& role, uint32_t chunk, Tile&& tile,
                                          Take&& take) {
  const uint32_t rows = role.launch.row_bound;
  const uint32_t column = role.lane / 4;
  const uint32_t lane_columns = chunk + column % 2 * activation_image::kHalfStride + role.lane % 4 * 16;
#pragma unroll 1
  for (uint32_t first = 0; first < rows; first += kRowsOfTile) {
    // Columns without a row repeat the last: what they give is not used.
    const uint32_t row = min(first + column / 2, rows - 1);
    const float value = tile(lane_columns + row * kActivationRowBytes);
    if (first + role.lane % 4 < rows) take(first + role.lane % 4, value);
  }
}

// Multiplies page `page` with chunk `chunk` of the activations, both counted through the launch.
template <class Take>
__device__ __forceinline__ void multiply_page(ConsumerRole& role, const Plan& plan, uint32_t page,
                                              uint32_t half_cols, uint32_t chunk, Take&& take) {
  const uint32_t streamed = role.next_streamed + chunk - role.next_chunk;
  const uint32_t weights =
      ptx::shared_address(role.s.ring[page % kRingPages]) + role.lane * static_cast<uint32_t>(sizeof(uint4));
  const uint32_t x = ptx::shared_address(role.s.activations) + activation_slot(role.launch, chunk);
  const auto wait_activations = [&] {
    plan.resident ? role.wait_prepared() : role.wait_streamed_chunk(streamed);
  };
  role.wait_page(page);
  if (half_cols == page_image::kHalfCols) {
    uint4 w[kProducts];
#pragma unroll
    for (uint32_t j = 0; j < kProducts; ++j) w[j] = ptx::shared_load(weights + j * page_image::kProductBytes);
    role.free_page(page);
    wait_activations();
    for_tiles(
        role, x, [&](uint32_t column) { return multiply_registers(w, column); }, take);
  } else {
    const uint32_t products = half_cols / page_image::kProductCols;
    wait_activations();
    for_tiles(
        role, x, [&](uint32_t column) { return multiply_shared(weights, products, column); }, take);
    role.free_page(page);
  }
}

// Where a lane leaves its results of row 0 in a part of a unit's: parts are [part][row][8].
__device__ __forceinline__ float* part_place(const ConsumerRole& role, const Plan& plan, uint32_t unit,
                                             uint32_t part) {
  const uint32_t slot = unit & (plan.slots - 1);
  return role.s.partials + (slot * plan.matrices * plan.parts() + part) * role.launch.row_slots * kUnitRows +
         role.lane / 4;
}

// Returns when the storer no longer needs what lies where the unit's results will go.
__device__ __forceinline__ void wait_part_place(ConsumerRole& role, const Plan& plan, uint32_t unit) {
  role.wait_stored(unit < plan.slots ? role.next_unit : role.next_unit + unit - plan.slots + 1);
}

// The pages of an instruction that one warp multiplies, in its order.
struct Walk {
  uint32_t page;  // of the instruction's
  uint32_t unit;
  uint32_t part;   // of the unit's pages: chunk, or chunks + chunk for the second matrix
  uint32_t block;  // of units; only where activations are not resident

  __device__ __forceinline__ uint32_t chunk(const Plan& plan) const {
    return part < plan.chunks ? part : part - plan.chunks;
  }
  __device__ __forceinline__ uint32_t matrix(const Plan& plan) const { return part < plan.chunks ? 0 : 1; }
};

// Resident: the warps take the pages in turn.
__device__ __forceinline__ Walk first_resident(const ConsumerRole& role, const Plan& plan) {
  const uint32_t page = (role.warp - role.next_page) % kConsumerWarps;
  const uint32_t unit = page / plan.unit_pages();
  return {.page = page, .unit = unit, .part = page - unit * plan.unit_pages(), .block = 0};
}
__device__ __forceinline__ void next_resident(const Plan& plan, Walk& at) {
  at.page += kConsumerWarps;
  for (at.part += kConsumerWarps; at.part >= plan.unit_pages(); at.part -= plan.unit_pages()) ++at.unit;
}

// Otherwise: each warp takes a unit of the block, chunk by chunk, and the matrices of a chunk one after the
// other.
__device__ __forceinline__ uint32_t streamed_page(const Plan& plan, const Walk& at) {
  const uint32_t in_block = at.unit - at.block * kConsumerWarps;
  return at.block * kConsumerWarps * plan.unit_pages() +
         (at.chunk(plan) * plan.block_units(at.block) + in_block) * plan.matrices + at.matrix(plan);
}
__device__ __forceinline__ Walk first_streamed(const ConsumerRole& role, const Plan& plan) {
  Walk at{.page = plan.pages(), .unit = role.warp, .part = 0, .block = 0};
  if (at.unit < plan.units) at.page = streamed_page(plan, at);
  return at;
}
__device__ __forceinline__ void next_streamed(const Plan& plan, Walk& at) {
  const uint32_t chunk = at.chunk(plan);
  const bool next_chunk = at.matrix(plan) + 1 == plan.matrices;
  if (!next_chunk) {
    at.part += plan.chunks;
  } else if (chunk + 1 < plan.chunks) {
    at.part = chunk + 1;
  } else {
    at.part = 0;
    ++at.block;
    at.unit += kConsumerWarps;
  }
  at.page = at.unit < plan.units ? streamed_page(plan, at) : plan.pages();
}

// A page's results become a part of the unit's, or are added to it where one warp has all of them.
__device__ __forceinline__ void consume_page(ConsumerRole& role, const Plan& plan, const Walk& at) {
  const uint32_t chunk = at.chunk(plan);
  float* const to = part_place(role, plan, at.unit, plan.resident ? at.part : at.matrix(plan));
  const bool begins = plan.resident || chunk == 0;
  bool free = !begins;
  multiply_page(role, plan, role.next_page + at.page, plan.half_cols(chunk),
                role.next_chunk + at.block * plan.chunks + chunk, [&](uint32_t row, float value) {
                  if (!free) wait_part_place(role, plan, at.unit);
                  free = true;
                  float& sum = to[row * kUnitRows];
                  sum = begins ? value : sum + value;
                });
}

__device__ __forceinline__ void consume_pages(ConsumerRole& role, const Plan& plan) {
  Walk at = plan.resident ? first_resident(role, plan) : first_streamed(role, plan);
  while (at.page < plan.pages()) {
    consume_page(role, plan, at);
    Walk next = at;
    if (plan.resident) {
      next_resident(plan, next);
      role.arrive_unit(role.next_unit + at.unit);
    } else {
      next_streamed(plan, next);
      if (next.unit != at.unit) role.arrive_unit(role.next_unit + at.unit);
      if (next.chunk(plan) != at.chunk(plan) || next.unit != at.unit) {
        role.used_chunks(role.next_chunk + at.block * plan.chunks + at.chunk(plan) + 1);
      }
    }
    at = next;
  }
}

// What a lane of the storer finishes: one output.
struct Output {
  uint32_t unit;         // of the instruction's, from its first_unit
  uint32_t row_of_unit;  // 0 to 7
  uint32_t row;          // of the pass
  bool wanted;           // the pass has this row and wants the result
};

// A warp of 32 lanes finishes four times 8 outputs at once: of four rows, or of several units where there are
// fewer rows.
struct Batch {
  uint32_t rows;   // that are finished at once
  uint32_t units;  // likewise
};
__device__ __forceinline__ Batch batch_of(const Launch& launch) {
  const uint32_t rows = min(launch.row_slots, kRowsOfTile);
  return {.rows = rows, .units = kRowsOfTile / rows};
}

// The sum over a unit's chunks, in order.
__device__ __forceinline__ float sum_parts(const StorerRole& role, const Plan& plan, const Output& out,
                                           uint32_t matrix) {
  const uint32_t slot = out.unit & (plan.slots - 1);
  const uint32_t part_floats = role.launch.row_slots * kUnitRows;
  const float* from = role.s.partials + (slot * plan.matrices + matrix) * plan.parts() * part_floats +
                      out.row * kUnitRows + out.row_of_unit;
  float sum = 0;
#pragma unroll 2
  for (uint32_t part = 0; part < plan.parts(); ++part) sum += from[part * part_floats];
  return sum;
}

// What all of them share.
struct Stream {
  using Plan = matvec::Plan;

  // Resident: unit after unit, all chunks of each. Otherwise: block after block of units, and in a block
  // chunk after chunk. image(unit, matrix) is where the pages of a unit begin.
  template <class Image>
  static __device__ __forceinline__ void load(LoaderRole& role, const Plan& plan, Image&& image) {
    const uint32_t block_units = plan.resident ? 1 : kConsumerWarps;
    const uint32_t chunks_at_once = plan.resident ? plan.chunks : 1;
    const uint32_t unit_matrices = plan.matrices;
    const uint32_t in_flight = plan.pages() < kLongStreamPages ? kPagesInFlight : kPagesInFlightOfLong;
#pragma unroll 1
    for (uint32_t first = 0; first < plan.units; first += block_units) {
      const uint32_t end = min(first + block_units, plan.units);
#pragma unroll 1
      for (uint32_t begin = 0; begin < plan.chunks; begin += chunks_at_once) {
#pragma unroll 1
        for (uint32_t n = 0; n < (end - first) * unit_matrices; ++n) {
          const uint32_t unit = first + (unit_matrices == 1 ? n : n / 2);
          const std::byte* pages = image(unit, unit_matrices == 1 ? 0 : n % 2);
#pragma unroll 1
          for (uint32_t chunk = begin; chunk < begin + chunks_at_once; ++chunk) {
            role.page(pages + chunk * kPageBytes, page_image::bytes_of_half(plan.half_cols(chunk)),
                      in_flight);
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void prepare(PreparerRole& role, const Plan& plan);  // activations.cuh

  static __device__ __forceinline__ void consume(ConsumerRole& role, const Plan& plan) {
    consume_pages(role, plan);
    role.next_page += plan.pages();
    role.next_unit += plan.units;
    role.next_chunk += plan.activation_chunks();
    if (!plan.resident) role.next_streamed += plan.activation_chunks();
    role.used_chunks(role.next_chunk);
    // Each record's phase is waited for once, so that the next in its place cannot be taken for it. Preparers
    // of streamed chunks end only when every warp is done with those before.
    if (plan.units == 0 || !plan.resident) role.wait_prepared();
  }
};

}  // namespace matvec

// `Derived` is DeviceOp<Op> and has
//   kMatrices                                  matrices that a unit has rows of
//   cols(op), units(op)                        columns of the weights; units in all
//   input(slot, op)                            matvec::Input
//   image(slot, op, matrix, unit)              the matrix's page image; changes `unit` to the image's
//   fetch_extra(role, op, output)              what storing an output needs besides the sums; may be read
//   early store_output(role, op, output, sums, extra)  called by all lanes, whether the output is wanted or
//   not
template <class Derived>
struct MatvecOp {
  template <class Op>
  static __device__ bool in_range(const Op& op) {
    return op.num_units > 0 && op.first_unit < Derived::units(op) &&
           op.num_units <= Derived::units(op) - op.first_unit;
  }

  template <class Op>
  static __device__ matvec::Plan plan(const Launch& launch, const RecordSlot& slot, const Op& op) {
    const matvec::Input input = Derived::input(slot, op);
    const uint32_t chunks = page_image::chunks(Derived::cols(op));
    const bool resident = chunks <= activation_slots(launch);
    return {.input = input,
            // After the launch's first pass every active row wants logits.
            .units = input.logits_only && launch.any_logits == 0 ? 0 : op.num_units,
            .matrices = Derived::kMatrices,
            .chunks = chunks,
            .cols = Derived::cols(op),
            .slots = matvec::unit_slots(launch, Derived::kMatrices, resident ? chunks : 1),
            .last_half = page_image::half_cols(Derived::cols(op), chunks - 1),
            .resident = resident};
  }

  // Where the pages of a unit of the instruction begin.
  template <class Op>
  static __device__ __forceinline__ const std::byte* pages_of(const RecordSlot& slot, const Op& op,
                                                              uint32_t unit, uint32_t matrix) {
    uint32_t image_unit = op.first_unit + unit;
    const std::byte* image = Derived::image(slot, op, matrix, image_unit);
    return image + page_image::page_offset(Derived::cols(op), image_unit, 0);
  }

  template <class Op>
  static __device__ __forceinline__ void store(StorerRole& role, const Op& op, const matvec::Plan& p) {
    role.wait_inputs();
    const matvec::Batch batch = matvec::batch_of(role.launch);
    for (uint32_t unit = 0; unit < p.units; unit += batch.units) {
      const uint32_t units = min(batch.units, p.units - unit);
#pragma unroll 1
      for (uint32_t row = 0; row < role.launch.row_bound; row += batch.rows) {
        const matvec::Output out = output(role, p, batch, unit, row);
        // On its way while the sums are waited for.
        const auto extra = Derived::fetch_extra(role, op, out);
        if (row == 0) role.wait_units(units, p.arrivals());
        finish(role, op, p, out, extra);
      }
      __syncwarp();
      role.units_stored(units);
    }
  }

 private:
  static __device__ __forceinline__ matvec::Output output(const StorerRole& role, const matvec::Plan& p,
                                                          const matvec::Batch& batch, uint32_t first_unit,
                                                          uint32_t first_row) {
    const uint32_t which = role.lane / kUnitRows;
    const uint32_t row = first_row + (which & (batch.rows - 1));
    const uint32_t unit = first_unit + which * batch.units / matvec::kRowsOfTile;
    return {.unit = unit,
            .row_of_unit = role.lane % kUnitRows,
            .row = row,
            .wanted = unit < p.units && row < role.launch.row_bound && p.input.wants(role.s.rows[row])};
  }

  template <class Op, class Extra>
  static __device__ __forceinline__ void finish(StorerRole& role, const Op& op, const matvec::Plan& p,
                                                const matvec::Output& out, const Extra& extra) {
    float sums[Derived::kMatrices];
#pragma unroll
    for (uint32_t m = 0; m < Derived::kMatrices; ++m) sums[m] = matvec::sum_parts(role, p, out, m);
    Derived::store_output(role, op, out, sums, extra);
  }
};

}  // namespace serval::device
