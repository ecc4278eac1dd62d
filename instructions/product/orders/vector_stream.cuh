// Vector stream: the order in which products of few rows multiply their weights, which stream through the SM.
//
// Weights come as page images (vm/layout/page_image.h), one page a warp. A page is the 16-row operand of the
// products; the other operand's 8 columns are 4 rows of the pass, each as two halves of the panel's columns.
// A consumer warp loads its page into registers as soon as the page has landed, frees it, and only then waits
// for the activations. So eight more pages are in flight than the ring holds. Weights in 4 bits stay in
// shared memory until they are multiplied.
//
// Files in vector_stream/: the division of a record (plan.cuh), the products (products.cuh), those of weights
// whose groups have scales (group_products.cuh), and the outputs that storers finish (outputs.cuh). This file
// has the work of each role.
//
// Activations are images (vm/layout/activation_image.h), loaded by bulk copies. Rows to be normalised have
// the sums of squares of their residual, and RMS norm's division is left to the end: each storer adds up the
// squares of its rows and multiplies their sums by the resulting scale (instructions/common/residual.h).
//
// If the activations of all rows fit in shared memory, units are streamed one after the other and a unit's
// pages go to different warps (kResident). Otherwise a set of units is streamed panel by panel, and a panel
// of activations is dropped after its use; a unit's pages go to different warps if there is room for all
// their results (kStreamedPages), else to one warp (kStreamedUnits). In each mode an output is the sum over
// panels, in order, of a sum over the panel's products in a fixed order.
#pragma once

#include <cstdint>

#include "instructions/common/operands.cuh"
#include "instructions/product/formats/format_set.cuh"
#include "instructions/product/operands.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "instructions/product/orders/vector_stream/plan.cuh"
#include "instructions/product/orders/vector_stream/products.cuh"
#include "vm/device/architecture.cuh"
#include "vm/device/op.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/page_image.h"

namespace serval::device::vector_stream {

// How a product's record runs on a vector stream, if its epilogue finishes single outputs.
template <class Op>
struct ProductOfRecord {};
template <HasProduct Op>
struct ProductOfRecord<Op> {
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    const uint32_t all = product(op, program).units;
    return units_in_range(op.first_unit, op.num_units, all, all);
  }
  static __device__ Shape shape(const RecordBuffer& buffer, const Op& op, const ProgramShape& program) {
    Shape shape{input_of(buffer, op, program), op.num_units, matrices_of<Op>(), product(op, program).cols};
    if constexpr (requires { Op::kAddsTo; }) shape.column_parts = op.parts;
    shape.format = weight_type_of(typed_weights<Op>(buffer, 0));
    return shape;
  }
};

// The functions that vm/device/op.cuh requires of a stream.
template <class... Formats>
struct Stream {
  using FormatSet = formats::FormatSet<Formats...>;
  static constexpr bool kConsumersStore = false;
  using Plan = vector_stream::Plan;
  using Shape = vector_stream::Shape;
  // Pages of some units, which are contiguous.
  struct Pages {
    const std::byte* first;
    uint32_t units;
  };
  template <class T>
  using Op = ProductOfRecord<T>;

  // Pages from a unit of the record on.
  template <class T, class Role>
  static __device__ __forceinline__ Pages pages_of(const Role& role, const T& op, uint32_t unit,
                                                   uint32_t matrix) {
    const ProgramShape& program = role.s.shape;
    const WeightUnit at = find_weights(op, program, op.first_unit + unit, matrix);
    const std::byte* const images = typed_weights<T>(*role.buffer, at.tensor);
    const uint64_t offset = FormatSet::with(weight_type_of(images), [&](auto format) {
      return format.unit_offset(product(op, program).cols, at.index);
    });
    return {without_weight_type(images) + offset, at.adjoining};
  }
  template <class Config>
  static __device__ __forceinline__ Plan plan(const Launch& launch, const Shape& shape) {
    const uint32_t panels = page_image::panels(shape.cols);
    const uint32_t matrix_pages = FormatSet::with(shape.format, [&](auto format) {
      return (panels + format.kPanelsOfPage - 1) / format.kPanelsOfPage;
    });
    return make_plan<Config>(launch, shape, matrix_pages);
  }
  static __device__ __forceinline__ uint32_t units(const Plan& plan) { return plan.units; }
  static __device__ __forceinline__ bool has_panels(const Plan& plan) { return plan.activation_panels != 0; }
  // Number of storers of the record: at least one, which signals even if nothing is stored.
  template <class Config>
  static __device__ __forceinline__ uint32_t storers(const Plan& plan) {
    constexpr uint32_t kUnits = TileOfRows<Config>::kUnits;
    return max(1u, min((plan.units + kUnits - 1) / kUnits * kTilesOfUnit<Config>, kStorerWarps));
  }

  // Resident: unit after unit, all panels of each. Otherwise: unit set after unit set; in a unit set panel
  // after panel; in a panel matrix after matrix. find(unit, matrix): Pages. A lookup takes about as long as a
  // page of 8 KiB, so one serves all units whose pages are contiguous.
  template <class Role, class Find>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, Find&& find) {
    const uint32_t units_of_set = plan.resident() ? 1 : kConsumerWarps;
    const uint32_t unit_matrices = plan.matrices, matrix_pages = plan.unit_pages >> (unit_matrices - 1);
    const uint32_t pages_at_once = plan.resident() ? matrix_pages : 1;
    const uint32_t whole_bytes =
        FormatSet::with(plan.format, [](auto format) { return format.whole_page_bytes(); });
    const uint32_t last_bytes = FormatSet::with(
        plan.format, [&](auto format) { return format.page_bytes(plan.cols, matrix_pages - 1); });
    const uint32_t unit_bytes = (matrix_pages - 1) * whole_bytes + last_bytes;
    for (PageRun& run : role.s.page_runs) run = {};
#pragma unroll 1
    for (uint32_t first = 0; first < plan.units; first += units_of_set) {
      const uint32_t in_set = min(units_of_set, plan.units - first);
#pragma unroll 1
      for (uint32_t begin = 0; begin < matrix_pages; begin += pages_at_once) {
#pragma unroll 1
        for (uint32_t n = 0; n < in_set * unit_matrices; ++n) {
          const bool second = n >= in_set;
          const uint32_t unit = first + (second ? n - in_set : n);
          PageRun& run = role.s.page_runs[second ? 1 : 0];
          if (unit - run.begin >= run.units) {
            const Pages found = find(unit, second ? 1 : 0);
            run = {found.first, unit, found.units};
          }
          const std::byte* pages = run.first + uint64_t{unit - run.begin} * unit_bytes;
#pragma unroll 1
          for (uint32_t page = begin; page < begin + pages_at_once; ++page) {
            role.page(pages + page * whole_bytes, page + 1 < matrix_pages ? whole_bytes : last_bytes,
                      role.recorder);
          }
        }
      }
    }
  }

  // Loads panels in the order in which the consumers use them: all at once if they are resident, otherwise
  // one at a time, again for every unit set.
  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Plan& plan) {
    const uint32_t at_once = plan.resident() ? plan.panels : 1;
    const uint32_t total = plan.activation_panels;
    if (plan.resident() && total != 0) role.acquire_panels(at_once);
    role.wait_inputs(role.recorder);
    if (role.lane == 0) ptx::fence_proxy_async_global();
    uint32_t panel = 0;
#pragma unroll 1
    for (uint32_t n = 0; n < total; n += at_once) {
      if (!plan.resident()) role.acquire_panels(at_once);
      role.copy_panels(plan.input.activations + size_t{panel} * activation_image::panel_bytes(kTableRows),
                       activation_image::panel_bytes(kTableRows), at_once,
                       row_bound<typename Role::Config>(role.launch) * kActivationRowBytes);
      panel = panel + at_once < plan.panels ? panel + at_once : 0;
    }
  }

  // The storers take turns at the tiles. What a tile's outputs need besides their sums is fetched while the
  // storer waits for the sums; the part that nothing writes, before the inputs are ready. With many rows, a
  // storer has several tiles whose sums are complete at about the same time, so it fetches for the next tile
  // before it waits for this tile's sums. with_op(visit) calls visit.operator()<Op>(op) for the record's
  // instruction, so that one copy of everything else serves all instructions. stored() is called once this
  // warp's last tile is stored.
  template <class Role, class WithOp, class Stored>
  static __device__ __forceinline__ void store(Role& role, const Plan& plan, WithOp&& with_op,
                                               Stored&& stored) {
    using Config = typename Role::Config;
    static_assert(kTilesHaveRoom<Config>);
    constexpr bool kFetchesAhead = Config::kRows > 8;       // for fewer rows, it costs more than it hides
    if (role.buffer->begins_pass != 0) role.wait_inputs();  // the pass's rows arrive with them
    TileWalk at(role);
    role.own_units_stored(min(at.unit(), plan.units));
    float scale = 1;
    bool begun = false;
    Output out;
    Fetched fetched;
    uint32_t unit = 0;  // first unit of the tile of `out`
#pragma unroll 1
    for (;;) {
      const Output next = at.output(role, plan);
      Fetched of_next;
      if (!begun || at.unit() < plan.units) {
        with_op([&]<class T>(const T& op) {
          of_next.set(ProductOp<T>::epilogue(role, op).fetch_constant(role, next));
        });
        if (!begun) role.wait_inputs();
        with_op([&]<class T>(const T& op) {
          const auto epilogue = ProductOp<T>::epilogue(role, op);
          using OfOp = typename decltype(epilogue)::Fetched;
          if constexpr (requires(OfOp & f) { epilogue.fetch_written(role, next, f); }) {
            auto more = of_next.template as<OfOp>();
            epilogue.fetch_written(role, next, more);
            of_next.set(more);
          }
        });
      }
      const bool is_first = !begun;
      if (is_first) scale = scale_of(role, plan, at);
      begun = true;
      const auto take_next = [&] {
        out = next, fetched = of_next, unit = at.unit();
        at.next();
      };
      if (!kFetchesAhead || is_first) take_next();
      if (kFetchesAhead && is_first) continue;
      role.wait_partial_buffers(min(unit + TileOfRows<Config>::kUnits, plan.units));
      with_op([&]<class T>(const T& op) {
        role.wait_units(out.unit, out.exists, plan.arrivals);
        role.recorder.note();
        const Sums sums = sums_of(role, plan, out, scale);
        const auto epilogue = ProductOp<T>::epilogue(role, op);
        epilogue.store(role, out, sums, fetched.template as<typename decltype(epilogue)::Fetched>());
      });
      const bool is_last = at.unit() >= plan.units;
      if (is_last) stored();
      role.tile_stored(out.unit, out.exists && out.row_of_unit == 0 && out.row == at.first_row(),
                       kTilesOfUnit<Config>, min(at.unit(), plan.units));
      if (is_last) break;
      if (kFetchesAhead) take_next();
    }
    role.next_unit += plan.units;
  }

  template <class Role, class WithOp, class Signal>
  static __device__ __forceinline__ void consume(Role& role, const Plan& plan, WithOp&&, Signal&&) {
    FormatSet::with(plan.format, [&](auto format) { consume_pages(role, plan, format); });
    role.next_page += plan.pages;
    role.next_unit += plan.units;
    role.next_panel += plan.activation_panels;
    role.release_panels(role.next_panel);
  }
};

}  // namespace serval::device::vector_stream
