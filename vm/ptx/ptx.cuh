// The PTX instructions that device code uses, one thin function for each. Files are sorted by what the
// instructions act on. Those in vm/ptx exist since sm_80.
#pragma once

#include "vm/ptx/address.cuh"
#include "vm/ptx/barrier.cuh"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/copy.cuh"
#include "vm/ptx/math.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"
#include "vm/ptx/thread.cuh"

// The architecture's own (docs/add_an_architecture.md).
#include "vm/ptx/sm90/ptx.cuh"
