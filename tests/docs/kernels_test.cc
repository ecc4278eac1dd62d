// docs/architecture.md lists the kernels of instructions/kernels.def.
#include "instructions/kernels.h"

#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <regex>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(ArchitecturePage, ListsTheKernelsWithTheirSharedMemory) {
  std::ifstream file(SERVAL_SOURCE_DIR "/docs/architecture.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const KernelTraits& kernel : kernels()) {
    const std::regex row(fmt::format(R"(\| `{}` \| [^|\n]+ \| {} \| {} \|)", kernel.name, kernel.ring_pages,
                                     kernel.scratch_kib));
    EXPECT_TRUE(std::regex_search(page, row)) << kernel.name;
  }
}

}  // namespace
}  // namespace serval
