#include "engine/text/shown_tokens.h"

#include "gtest/gtest.h"

#include "tests/engine/toy_engine.h"

namespace serval {
namespace {

TEST(ShownTokens, AreWrittenAmongTheOthers) {
  const auto codec = testing::make_piece_codec({"a", "", "b"});  // the text leaves token 1 out
  const auto stream = with_shown_tokens(codec->stream(SpecialTokens::kNot), {{1, "[TOOL_CALLS]"}});
  EXPECT_EQ(stream->push(0) + stream->push(1) + stream->push(2) + stream->flush(), "a[TOOL_CALLS]b");
}

}  // namespace
}  // namespace serval
