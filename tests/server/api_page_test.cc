#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

#include "engine/server/api/parameters.h"

namespace serval::server {
namespace {

// The tables of docs/api.md are generated: `make docs` updates them.
TEST(ApiPage, HasEveryParameterWithItsDefaultAndLimit) {
  const std::string path = SERVAL_SOURCE_DIR "/docs/api.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string page = text.str();
  const std::string begin = "<!-- parameters: written by `make docs` -->\n", end = "<!-- end -->";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_LT(from, to);
  const size_t at = from + begin.size();
  if (std::getenv("SERVAL_WRITE_DOCS") != nullptr)
    std::ofstream(path) << page.substr(0, at) << parameter_table() << page.substr(to);
  else
    EXPECT_EQ(page.substr(at, to - at), parameter_table()) << path << " is stale: run make docs";
}

}  // namespace
}  // namespace serval::server
