// The PTX instructions that device code uses, one thin function for each. Files are sorted by what the
// instructions act on.
#pragma once

#include "vm/ptx/address.cuh"
#include "vm/ptx/barrier.cuh"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/copy.cuh"
#include "vm/ptx/math.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"
#include "vm/ptx/thread.cuh"
#include "vm/ptx/wgmma.cuh"
