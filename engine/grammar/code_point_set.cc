#include "engine/grammar/code_point_set.h"

#include <algorithm>

namespace serval::grammar {

CodePointSet normalised(CodePointSet ranges) {
  std::ranges::sort(ranges, {}, &CodePoints::first);
  CodePointSet out;
  for (const CodePoints& range : ranges) {
    const bool touches = !out.empty() && range.first <= out.back().last + 1;
    if (touches) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePoints& range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

CodePointSet intersection(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const CodePoints both = {std::max(a[i].first, b[j].first), std::min(a[i].last, b[j].last)};
    if (both.first <= both.last) out.push_back(both);
    if (a[i].last < b[j].last) {
      ++i;
    } else {
      ++j;
    }
  }
  return out;
}

}  // namespace serval::grammar
