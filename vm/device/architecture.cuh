// A thread block as the architecture lays it out: its warps, its shared memory, and what each role may do.
// docs/add_an_architecture.md lists the names that other files use.
#pragma once

#include "vm/device/sm90/roles.cuh"
