#include "instructions/isa_reference.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace serval {
namespace {

// docs/isa.md is generated: `make docs` writes it again.
TEST(IsaReference, PageIsWhatTheInstructionSetSays) {
  const std::string path = SERVAL_SOURCE_DIR "/docs/isa.md";
  if (std::getenv("SERVAL_WRITE_DOCS") != nullptr) std::ofstream(path) << isa_reference();
  std::ifstream in(path);
  ASSERT_TRUE(in) << path << " is missing: run make docs";
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), isa_reference()) << path << " is stale: run make docs";
}

}  // namespace
}  // namespace serval
