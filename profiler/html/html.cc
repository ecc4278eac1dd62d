#include "profiler/html/html.h"

#include <fmt/format.h>

#include "profiler/html/data_block.h"
#include "profiler/html/page_text.h"
#include "profiler/report/diff.h"
#include "vm/base/error.h"
#include "vm/base/write_file.h"

namespace serval {
namespace {

// Text that the browser keeps but does not run.
std::string script(const char* what, const std::string& text) {
  return fmt::format("<script type=\"application/x-serval-{}\">\n{}\n</script>\n", what, text);
}

}  // namespace

std::string to_html(std::span<const HtmlTrace> traces) {
  if (traces.empty() || traces.size() > kMaxHtmlTraces) {
    throw Error(ErrorKind::kUsage,
                fmt::format("html: {} traces; a page shows 1 to {}", traces.size(), kMaxHtmlTraces));
  }
  std::string blocks;
  for (const HtmlTrace& trace : traces) blocks += script("trace", html::data_block(trace));
  if (traces.size() == kMaxHtmlTraces) {
    const TraceDiff diff = diff_of(traces.front().report, traces.back().report);
    blocks += script("diff", html::without_less_than(to_json(diff)));
  }
  std::string page(html::page_text());
  return page.replace(page.find(html::kDataMark), html::kDataMark.size(), blocks);
}

void write_html(std::span<const HtmlTrace> traces, const std::filesystem::path& path) {
  write_file(path, to_html(traces));
}

}  // namespace serval
