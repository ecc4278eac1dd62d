// Sets of code points.
#pragma once

#include <vector>

#include "engine/grammar/utf8_ranges.h"

namespace serval::grammar {

// Ranges in ascending order with gaps between them.
using CodePointSet = std::vector<CodePoints>;

CodePointSet normalised(CodePointSet ranges);  // `ranges` may overlap and be in any order
CodePointSet complement(const CodePointSet& set);
CodePointSet intersection(const CodePointSet& a, const CodePointSet& b);

}  // namespace serval::grammar
