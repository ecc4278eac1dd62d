#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

#include "engine/server/api/embedding_request.h"
#include "engine/server/api/parameters.h"

namespace serval::server {
namespace {

// The tables of docs/api.md are generated: `make docs` updates them.
void expect_table(const std::string& begin, const std::string& end, const std::string& table) {
  const std::string path = SERVAL_SOURCE_DIR "/docs/api.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string page = text.str();
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_LT(from, to);
  const size_t at = from + begin.size();
  if (std::getenv("SERVAL_WRITE_DOCS") != nullptr)
    std::ofstream(path) << page.substr(0, at) << table << page.substr(to);
  else
    EXPECT_EQ(page.substr(at, to - at), table) << path << " is stale: run make docs";
}

TEST(ApiPage, HasEveryParameterWithItsDefaultAndLimit) {
  expect_table("<!-- parameters: written by `make docs` -->\n", "<!-- end -->", parameter_table());
}

TEST(ApiPage, HasEveryParameterOfEmbeddings) {
  expect_table("<!-- embedding parameters: written by `make docs` -->\n",
               "<!-- end of embedding parameters -->", embedding_parameter_table());
}

}  // namespace
}  // namespace serval::server
