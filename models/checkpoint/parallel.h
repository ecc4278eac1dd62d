// A list of independent pieces of work, shared out over the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace serval {

// Runs run(0) … run(count − 1) in any order and returns when all are done. `run` must not throw. `on_done`,
// which may be empty, is called on the calling thread only, with the number of pieces finished so far, and
// last with `count`; where it throws, pieces not yet begun are left out and the exception goes on.
void for_each_piece(size_t count, const std::function<void(size_t)>& run,
                    const std::function<void(size_t)>& on_done);

}  // namespace serval
