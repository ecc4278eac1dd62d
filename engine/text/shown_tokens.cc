#include "engine/text/shown_tokens.h"

#include <algorithm>
#include <utility>

namespace serval {
namespace {

class ShowingStream final : public TextStream {
 public:
  ShowingStream(std::unique_ptr<TextStream> stream, std::vector<ShownToken> shown)
      : stream_(std::move(stream)), shown_(std::move(shown)) {}

  std::string push(int32_t token) override {
    const auto found = std::ranges::find(shown_, token, &ShownToken::id);
    return found == shown_.end() ? stream_->push(token) : found->text;
  }
  std::string flush() override { return stream_->flush(); }

 private:
  const std::unique_ptr<TextStream> stream_;
  const std::vector<ShownToken> shown_;
};

}  // namespace

std::unique_ptr<TextStream> with_shown_tokens(std::unique_ptr<TextStream> stream,
                                              std::vector<ShownToken> shown) {
  if (shown.empty()) return stream;
  return std::make_unique<ShowingStream>(std::move(stream), std::move(shown));
}

}  // namespace serval
