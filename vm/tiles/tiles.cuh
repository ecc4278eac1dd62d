// The tile library: what instructions are written in.
#pragma once

#include "vm/tiles/ops/async.cuh"
#include "vm/tiles/ops/convert.cuh"
#include "vm/tiles/ops/map.cuh"
#include "vm/tiles/ops/mma.cuh"
#include "vm/tiles/ops/reduce.cuh"
#include "vm/tiles/ops/shared.cuh"
