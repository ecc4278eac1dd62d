// The PTX instructions of sm_90 (Hopper) that device code uses beside those of vm/ptx.
#pragma once

#include "vm/ptx/sm90/barrier.cuh"
#include "vm/ptx/sm90/bulk_copy.cuh"
#include "vm/ptx/sm90/cluster.cuh"
#include "vm/ptx/sm90/grid.cuh"
#include "vm/ptx/sm90/registers.cuh"
#include "vm/ptx/sm90/store_matrices.cuh"
#include "vm/ptx/sm90/wgmma.cuh"
