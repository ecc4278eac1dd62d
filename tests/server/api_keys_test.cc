#include "engine/server/service/api_keys.h"

#include <fstream>

#include "gtest/gtest.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

class KeyFile {
 public:
  explicit KeyFile(const std::string& text) : path_(::testing::TempDir() + "serval_keys_test") {
    std::ofstream(path_) << text;
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string refusal_of(const std::string& text) {
  const KeyFile file(text);
  try {
    ApiKeys::read(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ConstantTime, ComparesAllOfBoth) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  EXPECT_FALSE(equal_in_constant_time("secreT", "secret"));
  EXPECT_FALSE(equal_in_constant_time("secre", "secret"));
  EXPECT_FALSE(equal_in_constant_time("secretsecret", "secret"));
  EXPECT_FALSE(equal_in_constant_time("", "secret"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
}

TEST(ApiKeys, WithoutKeysEveryRequestIsAllowed) {
  const ApiKeys keys;
  EXPECT_EQ(*keys.name_of(""), "anonymous");
  EXPECT_EQ(*keys.name_of("Bearer whatever"), "anonymous");
}

TEST(ApiKeys, AKeyIsKnownByItsName) {
  const KeyFile file("# comment\n\nann:first\r\nsecond\nbob:third\n");
  const ApiKeys keys = ApiKeys::read(file.path());
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_EQ(*keys.name_of("Bearer first"), "ann");
  EXPECT_EQ(*keys.name_of("bearer second"), "key-2");
  EXPECT_EQ(*keys.name_of("Bearer third"), "bob");
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer firs", "Bearer firstt", "Basic first", "first"})
    EXPECT_EQ(keys.name_of(wrong), nullptr) << wrong;
}

TEST(ApiKeys, ABadFileIsRefusedWithoutShowingAKey) {
  EXPECT_NE(refusal_of("").find("no key;"), std::string::npos);
  EXPECT_NE(refusal_of("ok\nwith space\n").find("line 2"), std::string::npos);
  EXPECT_EQ(refusal_of("ok\nwith space\n").find("with space"), std::string::npos);
  EXPECT_NE(refusal_of("name:\n").find("line 1"), std::string::npos);
  EXPECT_THROW(ApiKeys::read("/nowhere/keys"), Error);
}

}  // namespace
}  // namespace serval::server
