// The tile library in which instructions are written, in the manner of ThunderKittens. Operations are
// functions `name(dst, src…)` on typed tiles; a tile of the wrong shape, type or layout does not compile
// (types/concepts.cuh).
//
//   types/element.cuh           E4m3, Bf16, Fp16 and float; what a lane holds of them
//   types/layout.cuh            how the tensor cores spread a tile over a warp's lanes
//   types/register_tile.cuh     RegisterTile, Accumulator
//   types/register_vector.cuh   RegisterVector: RowVector and ColumnVector of a tile
//   types/shared_tile.cuh       SharedTile and its swizzles
//   types/global_tile.cuh       GlobalTile: a matrix in global memory, and its concurrent writers
//   types/concepts.cuh          requirements of operations on their operands
//
//   ops/register/map.cuh        fill, map, add, add_columns, multiply_complex; map_rows, map_columns,
//                               map_rows_and_columns
//   ops/register/reduce.cuh     reduce_rows, reduce_columns with Sum or Max, in two steps: accumulate_rows,
//                               accumulate_columns; reduce_lanes; cumulative_sums
//   ops/register/convert.cuh    convert
//   ops/register/terms.cuh      the column order of load_terms
//   ops/register/segment.cuh    Segment: eight neighbours of a row; unpack, pack, map_segments, add_up
//   ops/register/mma.cuh        mma_ab, mma_abt, mma_atb, mma_atbt
//   ops/shared/load_store.cuh   load_left, load_right, load_right_columns, load_terms, load, store: shared
//                               memory ↔ registers
//   ops/global/load_store.cuh   load, store, load_terms: global memory ↔ registers or shared memory
//   ops/global/async.cuh        load_async, load_rows_async, commit_async, wait_async: a warp's own
//                               asynchronous loads
//
// With the copy engine, for Hopper only and not included here:
//
//   sm90/bulk.cuh               load_async, store_async, commit_stores, wait_stores: row after row
//   sm90/tensor.cuh             load_async, store_async: through a TensorMap
//   sm90/tensor_map.cuh         TensorMap: a matrix for the copy engine; sm90/make_tensor_map.h makes one
//   sm90/warpgroup.cuh          tiles of a warpgroup: asynchronous products, and the operations above on them
//   sm90/pipeline.cuh           load, compute, store, finish: a kernel out of an author's small functions
//
// They are built on the functions of vm/ptx/, one thin function for each PTX instruction.
//
// docs/tiles.md shows how to write a kernel with them. Instructions of the interpreter multiply whole pages
// by vm/ptx/sm90/wgmma.cuh itself: their operands are not tiles yet.
#pragma once

#include "vm/tiles/ops/global/async.cuh"
#include "vm/tiles/ops/global/load_store.cuh"
#include "vm/tiles/ops/register/convert.cuh"
#include "vm/tiles/ops/register/map.cuh"
#include "vm/tiles/ops/register/mma.cuh"
#include "vm/tiles/ops/register/reduce.cuh"
#include "vm/tiles/ops/register/segment.cuh"
#include "vm/tiles/ops/register/terms.cuh"
#include "vm/tiles/ops/shared/load_store.cuh"
