#include "engine/cli/output/draft_line.h"

#include <algorithm>

#include "fmt/format.h"

namespace serval::cli {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
}

}  // namespace

double acceptance_length(const DraftStats& drafts) {
  return 1 + ratio(drafts.accepted, drafts.passes);
}

std::string draft_line(const DraftStats& drafts) {
  constexpr double kPercent = 100;
  return fmt::format("drafts: {} tokens in {} passes, {:.1f} % accepted; {:.2f} tokens a pass with drafts",
                     drafts.drafted, drafts.passes, kPercent * ratio(drafts.accepted, drafts.drafted),
                     acceptance_length(drafts));
}

}  // namespace serval::cli
