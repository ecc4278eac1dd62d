// Tiles of a warpgroup: registers of four warps, operands in shared memory, asynchronous products.
//
//   warpgroup/types.cuh   RegisterTile, Accumulator, RowVector, ColumnVector; SharedTile of several panels;
//                         rows_of, columns_of; Place
//   warpgroup/mma.cuh     mma_ab_async, mma_abt_async; InFlight; settle
//   warpgroup/ops.cuh     fill, zeros, fresh_zeros, map, map_rows, map_columns, reduce_rows, accumulate_rows,
//                         reduce_lanes, convert, columns; load, load_transposed, store, store_through: shared
//                         memory and the copy engine; store_rows: global memory
//
// Not included here:
//
//   warpgroup/fourier.cuh  fill_roots, fill_fourier, beside: Fourier transforms as products
#pragma once

#include "vm/tiles/sm90/warpgroup/mma.cuh"
#include "vm/tiles/sm90/warpgroup/ops.cuh"
#include "vm/tiles/sm90/warpgroup/types.cuh"
