// What a GBNF grammar's rules can begin with: the empty text, or themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/grammar/gbnf_parser.h"

namespace serval::grammar {

class GbnfAnalysis {
 public:
  // `tree` must outlive it.
  explicit GbnfAnalysis(const GbnfTree& tree);

  // Whether the empty text matches.
  bool is_nullable(GbnfTree::NodeId node) const { return nullable_[node]; }
  // A cycle of rules, each of which can begin with the next one; nullopt if the grammar has no left
  // recursion.
  std::optional<std::vector<uint32_t>> left_recursion() const;

 private:
  bool find_nullable(GbnfTree::NodeId node) const;
  std::vector<uint32_t> first_rules(GbnfTree::NodeId body) const;

  const GbnfTree& tree_;
  std::vector<bool> nullable_;  // by node
};

}  // namespace serval::grammar
