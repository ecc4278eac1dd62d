// docs/kernels.md is generated from instructions/sm90/kernels.def.
#include "instructions/kernels.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr const char* kHead = R"(# Kernels

Generated from `instructions/sm90/kernels.def` by `docs_test`; `make docs` writes this page again. `instructions/kernels.h` has the meaning of each
field, and [architecture.md](architecture.md#kernels) says why there are several kernels. Each is compiled twice: without and with a recorder.

| kernel | passes of up to | products | heads, channels | head norms | only generates | pools | GPUs | ring, pages of 16 KiB | scratch, KiB |
| --- | ---: | --- | --- | --- | --- | --- | --- | ---: | ---: |
)";

std::string products_of(const KernelTraits& kernel) {
  if (kernel.tile_rows != 0)
    return fmt::format("tiles of {} rows{}", kernel.tile_rows, kernel.wide_tiles ? ", wide ones" : "");
  if (kernel.codes == WeightCodes::kE4M3) return "vectors, with weights in e4m3";
  if (kernel.codes == WeightCodes::kInt4) return "vectors, with weights in 4 bits";
  return kernel.tile_order ? "vectors in the order of tiles" : "vectors";
}

std::string kernels_page() {
  std::string page = kHead;
  for (const KernelTraits& kernel : kernels())
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", kernel.name,
                        kernel.rows == 1 ? "1 row" : fmt::format("{} rows", kernel.rows), products_of(kernel),
                        kernel.head_dim == 0 ? "64 or 128" : fmt::format("{}", kernel.head_dim),
                        kernel.head_norms ? "yes" : "no", kernel.single_rows ? "yes" : "no",
                        kernel.pools ? "yes" : "no", kernel.of_ranks ? "several" : "one", kernel.ring_pages,
                        kernel.scratch_kib);
  return page;
}

TEST(KernelsPage, IsWhatTheListOfKernelsSays) {
  const std::string path = SERVAL_SOURCE_DIR "/docs/kernels.md";
  if (std::getenv("SERVAL_WRITE_DOCS") != nullptr) std::ofstream(path) << kernels_page();
  std::ifstream in(path);
  ASSERT_TRUE(in) << path << " is missing: run make docs";
  const std::string page(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(page, kernels_page()) << path << " is stale: run make docs";
}

}  // namespace
}  // namespace serval
