// Runs independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace serval {

// Calls run(0) … run(count − 1) in any order and returns when all have returned. `run` must not throw.
// `on_done` may be empty. It is called on the calling thread with the number of finished pieces, the last
// time with `count`. If it throws, no further piece starts and the exception is rethrown.
void for_each_piece(size_t count, const std::function<void(size_t)>& run,
                    const std::function<void(size_t)>& on_done);

}  // namespace serval
