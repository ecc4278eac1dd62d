#include "instructions/sample/ranges.h"

#include "fmt/format.h"

namespace serval {

std::string SamplingRange::text() const {
  return least_excluded ? fmt::format("above {:.0f}, up to {:.0f}", least, most)
                        : fmt::format("{:.0f} to {:.0f}", least, most);
}

}  // namespace serval
