#include "models/tokenizer/bpe.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

void refuse_text(const JsonField& model, std::string_view key, std::string_view why) {
  const auto field = model.find(key);
  if (field && !field->text().empty()) field->fail(why);
}

}  // namespace

Bpe::Bpe(const JsonField& model, const Vocabulary& vocabulary, std::optional<std::vector<BpeMerge>> merges)
    : vocabulary_(vocabulary) {
  constexpr std::string_view kOnlyByteLevel =
      "not supported; supported: BPE that is byte-level or has byte_fallback";
  if (const auto type = model.find("type"); type && type->text() != "BPE") {
    type->fail(fmt::format("{} is {}", in_quotes(type->text()), kOnlyByteLevel));
  }
  refuse_text(model, "continuing_subword_prefix", kOnlyByteLevel);
  refuse_text(model, "end_of_word_suffix", kOnlyByteLevel);
  if (const auto dropout = model.find("dropout"); dropout && dropout->number() != 0) {
    dropout->fail("not supported: encoding would be random");
  }
  ignore_merges_ = model.flag("ignore_merges", false);
  fuse_unknown_ = model.flag("fuse_unk", false);
  if (const auto unknown = model.find("unk_token"); unknown && !unknown->text().empty()) {
    const auto id = vocabulary_.find_in_model(unknown->text());
    if (!id) unknown->fail(fmt::format("{} is not in model.vocab", in_quotes(unknown->text())));
    unknown_ = *id;
  }
  read_byte_tokens(model);
  if (merges) {
    merges_ = *std::move(merges);
    index_merges();
  } else {
    read_merges(model.at("merges"));
  }
}

void Bpe::read_byte_tokens(const JsonField& model) {
  const bool by_bytes = vocabulary_.spelling() == TokenSpelling::kByteLevel;
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    const std::string written = by_bytes ? std::string(1, c) : fmt::format("<0x{:02X}>", byte);
    byte_tokens_[byte] = vocabulary_.find_word(written).value_or(kNone);
    if (!by_bytes && byte_tokens_[byte] == kNone)
      model.at("vocab").fail(fmt::format("has no token {}, which byte_fallback needs", written));
  }
}

void Bpe::read_merges(const JsonField& list) {
  merges_.reserve(list.size());
  for (std::size_t rank = 0; rank < list.size(); ++rank) merges_.push_back(read_merge(list, rank));
  index_merges();
  for (std::size_t i = 1; i < merges_.size(); ++i) {
    const Merge &a = merges_[i - 1], &b = merges_[i];
    if (a.left == b.left && a.right == b.right) {
      list.element(b.rank).fail(fmt::format("the same pair as merge {}", a.rank));
    }
  }
}

void Bpe::index_merges() {
  const auto key = [](const Merge& m) { return std::tuple(m.left, m.right, m.rank); };
  std::sort(merges_.begin(), merges_.end(), [&](const Merge& a, const Merge& b) { return key(a) < key(b); });
  first_with_left_.assign(vocabulary_.size() + 1, 0);
  for (const Merge& merge : merges_) ++first_with_left_[merge.left + 1];
  for (std::size_t i = 1; i < first_with_left_.size(); ++i) first_with_left_[i] += first_with_left_[i - 1];
}

// A merge is "left right" or, in files whose tokens may contain spaces, ["left", "right"]. Neither part is
// empty, so the result is longer than both, and merges cannot form a cycle.
Bpe::Merge Bpe::read_merge(const JsonField& list, std::size_t rank) const {
  const JsonField field = list.element(rank);
  std::string left, right;
  if (field.is_text()) {
    const std::string& text = field.text();
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      field.fail(fmt::format("{} is not two tokens separated by a space", in_quotes(text)));
    }
    left = text.substr(0, space);
    right = text.substr(space + 1);
  } else {
    if (!field.is_array()) field.fail("expected a string or an array");
    if (field.size() != 2) field.fail(fmt::format("{} tokens, a merge has 2", field.size()));
    left = field.element(0).text();
    right = field.element(1).text();
  }
  if (left.empty() || right.empty()) field.fail("merges an empty token; both parts must have characters");
  const auto id_of = [&](const std::string& token) {
    const auto id = vocabulary_.find_in_model(token);
    if (!id) field.fail(fmt::format("{} is not in model.vocab", in_quotes(token)));
    return *id;
  };
  return {id_of(left), id_of(right), static_cast<std::int32_t>(rank), id_of(left + right)};
}

const Bpe::Merge* Bpe::find_merge(std::int32_t left, std::int32_t right, const TokenFilter& filter) const {
  const auto begin = merges_.begin() + first_with_left_[left],
             end = merges_.begin() + first_with_left_[left + 1];
  const auto merge =
      std::lower_bound(begin, end, right, [](const Merge& m, std::int32_t r) { return m.right < r; });
  if (merge == end || merge->right != right) return nullptr;
  if (filter.refuses(merge->result, vocabulary_.is_special(merge->result))) return nullptr;
  return &*merge;
}

// A word during merging: a doubly linked list of symbols, and a heap of possible merges.
class Bpe::Word {
 public:
  Word(const Bpe& bpe, std::string_view text, const TokenFilter& filter) : bpe_(bpe), filter_(filter) {
    if (bpe.vocabulary_.spelling() == TokenSpelling::kByteLevel) {
      append_bytes(text);
    } else {
      append_characters(text);
    }
  }

  void merge_all() {
    std::vector<Candidate> candidates;
    candidates.reserve(symbols_.size());
    heap_ = Heap(Later(), std::move(candidates));
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) consider(static_cast<std::int32_t>(i));
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      if (is_valid(best)) apply(best);
    }
  }

  void append_to(std::vector<std::int32_t>* ids) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.token != kNone) ids->push_back(symbol.token);
    }
  }

 private:
  struct Symbol {
    std::int32_t token;  // kNone after it was merged into its left neighbour
    std::int32_t previous, next;
  };
  struct Candidate {
    std::int32_t rank, position, result;
  };
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
    }
  };
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>, Later>;

  void append_bytes(std::string_view bytes) {
    bool after_unknown = false;
    for (const char c : bytes) {
      const std::int32_t token = bpe_.byte_tokens_[static_cast<unsigned char>(c)];
      const bool unknown = token == kNone;
      if (!unknown) {
        append(token);
      } else if (bpe_.unknown_ != kNone && !(bpe_.fuse_unknown_ && after_unknown)) {
        append(bpe_.unknown_);
      }
      after_unknown = unknown;
    }
  }

  void append_characters(std::string_view text) {
    while (!text.empty()) {
      const std::string_view character = text.substr(0, utf8_first(text).bytes);
      if (const auto token = bpe_.vocabulary_.find_word(character)) {
        append(*token);
      } else {
        append_bytes(character);
      }
      text.remove_prefix(character.size());
    }
  }

  void append(std::int32_t token) {
    const auto position = static_cast<std::int32_t>(symbols_.size());
    if (position > 0) symbols_.back().next = position;
    symbols_.push_back({token, position - 1, kNone});
  }

  const Merge* merge_at(std::int32_t position) const {
    const Symbol& left = symbols_[position];
    if (left.token == kNone || left.next == kNone) return nullptr;
    return bpe_.find_merge(left.token, symbols_[left.next].token, filter_);
  }

  void consider(std::int32_t position) {
    if (const Merge* merge = merge_at(position)) heap_.push({merge->rank, position, merge->result});
  }

  // False if other merges have changed the pair. As in `tokenizers`, a different pair with the same result
  // counts as valid.
  bool is_valid(const Candidate& candidate) const {
    const Merge* merge = merge_at(candidate.position);
    return merge != nullptr && merge->result == candidate.result;
  }

  void apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.position];
    Symbol& right = symbols_[left.next];
    left.token = candidate.result;
    left.next = right.next;
    right.token = kNone;
    if (left.next != kNone) symbols_[left.next].previous = candidate.position;
    if (left.previous != kNone) consider(left.previous);
    consider(candidate.position);
  }

  const Bpe& bpe_;
  const TokenFilter& filter_;
  std::vector<Symbol> symbols_;
  Heap heap_;
};

void Bpe::encode(std::string_view word, const TokenFilter& filter, std::vector<std::int32_t>* ids) const {
  if (ignore_merges_) {
    const auto id = vocabulary_.find_word(word);
    if (id && !filter.refuses(*id, vocabulary_.is_special(*id))) {
      ids->push_back(*id);
      return;
    }
  }
  Word symbols(*this, word, filter);
  symbols.merge_all();
  symbols.append_to(ids);
}

}  // namespace serval
