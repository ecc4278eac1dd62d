#include "vm/base/json_file.h"

#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "vm/base/error.h"

namespace serval {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::kRuntime, name + ": " + what);
}

// The text as a sequence of characters.
class Source {
 public:
  Source(const TextPieces& pieces, const std::string& name) : pieces_(pieces), name_(name) {}

  bool at_end() { return at_ == piece_.size() && !refill(); }
  const char& current() const { return piece_[at_]; }
  void advance() { ++at_; }
  std::size_t offset() const { return before_ + at_; }  // characters read so far
  // Call when a value, a key or a bracket has been read.
  void mark() { mark_ = offset(); }

 private:
  // Returns true if there is more text.
  bool refill() {
    const std::string_view next = pieces_();
    if (next.empty()) return false;
    before_ += piece_.size();
    piece_ = next;
    at_ = 0;
    // Limits what the parser buffers of an incomplete value. A text in one piece is in memory anyway.
    if (before_ - mark_ > kMaxJsonValueBytes)
      fail(name_, fmt::format("byte {}: a value of more than {} bytes", before_, kMaxJsonValueBytes));
    // The parser takes a zero byte for the end of its input and would ignore everything after it.
    if (const std::size_t zero = piece_.find('\0'); zero != piece_.npos)
      fail(name_, fmt::format("byte {}: a zero byte", before_ + zero + 1));
    return true;
  }

  const TextPieces& pieces_;
  const std::string& name_;
  std::string_view piece_;
  std::size_t at_ = 0;      // in the piece
  std::size_t before_ = 0;  // bytes before the piece
  std::size_t mark_ = 0;
};

// The parser's iterator over a Source. Without a source it is the end.
class SourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  SourceIterator() = default;
  explicit SourceIterator(Source* source) : source_(source) {}

  reference operator*() const { return source_->current(); }
  SourceIterator& operator++() {
    source_->advance();
    return *this;
  }
  friend bool operator==(const SourceIterator& a, const SourceIterator& b) { return a.ended() == b.ended(); }

 private:
  bool ended() const { return source_ == nullptr || source_->at_end(); }
  Source* source_ = nullptr;
};

// The library's message is "[json.exception…] parse error at line L, column C: REASON; last read: 'BYTES'…"
// or "[json.exception…] REASON". Only REASON is sure to be one line of text, and it may quote a long number.
std::string reason_of(std::string_view message) {
  constexpr std::size_t kMostShown = 160;
  const auto skip_past = [&message](std::string_view mark) {
    if (const std::size_t at = message.find(mark); at != message.npos)
      message.remove_prefix(at + mark.size());
  };
  skip_past("] ");
  if (message.starts_with("parse error at line ")) skip_past(": ");
  return std::string(message.substr(0, message.find("; last read")).substr(0, kMostShown));
}

// Python writes and reads these names of numbers, which JSON lacks. A number of the same length, which no
// file has a reason to contain, takes a name's place until its text is parsed.
struct NamedNumber {
  std::string_view name, literal;
  double value;
};
constexpr NamedNumber kNamedNumbers[] = {
    {"NaN", "0E0", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "0E000000", std::numeric_limits<double>::infinity()},
};

// True if text[at, at + size) is a whole value, apart from a sign before it.
bool is_whole_value(std::string_view text, std::size_t at, std::size_t size) {
  constexpr std::string_view kBefore = " \t\r\n:[,-", kAfter = " \t\r\n,]}";
  const std::size_t end = at + size;
  return (at == 0 || kBefore.find(text[at - 1]) != kBefore.npos) &&
         (end >= text.size() || kAfter.find(text[end]) != kAfter.npos);
}

// Replaces names outside of strings by literals; returns true if there were any.
bool replace_named_numbers(std::string& text) {
  bool found = false, in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && in_string) {
      ++at;
    } else if (text[at] == '"') {
      in_string = !in_string;
    } else if (!in_string && (text[at] == 'N' || text[at] == 'I')) {
      for (const NamedNumber& number : kNamedNumbers) {
        const bool is_name = std::string_view(text).substr(at, number.name.size()) == number.name;
        if (!is_name || !is_whole_value(text, at, number.name.size())) continue;
        text.replace(at, number.name.size(), number.literal);
        at += number.name.size() - 1;
        found = true;
        break;
      }
    }
  }
  return found;
}

struct Reading {
  int most_depth = kMaxJsonDepth;
  bool has_named_numbers = false;  // literals that stand for NaN and infinities occur
};

// Builds the tree as nlohmann::json::parse would, and refuses what that would let pass.
class TreeBuilder {
 public:
  TreeBuilder(const std::string& name, Source& source, const TakeJsonElement& take, const Reading& reading)
      : name_(name),
        source_(source),
        take_(take),
        most_depth_(static_cast<std::size_t>(reading.most_depth)),
        has_named_numbers_(reading.has_named_numbers) {}

  json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& literal) {
    const bool negative = literal.starts_with('-');
    for (const NamedNumber& number : kNamedNumbers)
      if (has_named_numbers_ && std::string_view(literal).substr(negative ? 1 : 0) == number.literal)
        value = negative ? -number.value : number.value;
    return add(value);
  }
  bool string(std::string& value) {
    count_text(value);
    return add(std::move(value));
  }
  bool binary(json::binary_t&) { return false; }  // JSON text has no binary values

  bool start_object(std::size_t) {
    open(json::object());
    keys_.emplace_back();
    return true;
  }
  bool start_array(std::size_t) {
    open(json::array());
    if (in_list()) kept_ = size_;
    return true;
  }
  bool end_object() {
    keys_.pop_back();
    return close();
  }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    count_text(name);
    source_.mark();
    auto [member, inserted] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!inserted) fail_here(fmt::format("key {} appears twice in one object", in_quotes(name)));
    member_ = &member->second;
    keys_.back() = name;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const json::exception& error) {
    fail(name_, fmt::format("byte {}: not JSON: {}", byte, reason_of(error.what())));
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const {
    fail(name_, fmt::format("byte {}: {}", source_.offset(), what));
  }

  struct Size {
    std::size_t values = 0, text_bytes = 0;
  };

  void count_text(const std::string& text) {
    size_.text_bytes += text.size();
    if (size_.text_bytes > kMaxJsonTextBytes)
      fail_here(fmt::format("texts of more than {} bytes", kMaxJsonTextBytes));
  }

  // Adds a value at the current place in the tree and returns its address.
  json* place(json&& value) {
    if (++size_.values > kMaxJsonValues) fail_here(fmt::format("more than {} values", kMaxJsonValues));
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array())
      return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    *member_ = std::move(value);
    return member_;
  }

  bool add(json value) {
    place(std::move(value));
    return finish();
  }

  // True if the innermost open container is an array that is a member of an object, and only objects enclose
  // it.
  bool in_list() const { return open_.size() == keys_.size() + 1 && open_.back()->is_array(); }

  // Call when a value is complete. If it is an element of such an array and is taken, removes it and its
  // size.
  bool finish() {
    source_.mark();
    if (!take_ || keys_.empty() || !in_list()) return true;
    auto& elements = open_.back()->get_ref<json::array_t&>();
    if (take_(keys_, elements.back())) {
      elements.pop_back();
      size_ = kept_;
    } else {
      kept_ = size_;
    }
    return true;
  }

  void open(json value) {
    if (open_.size() == most_depth_) fail_here(fmt::format("nested deeper than {}", most_depth_));
    open_.push_back(place(std::move(value)));
    source_.mark();
  }

  bool close() {
    open_.pop_back();
    return finish();
  }

  const std::string& name_;
  Source& source_;
  const TakeJsonElement& take_;  // may be empty
  const std::size_t most_depth_;
  const bool has_named_numbers_;
  json root_;
  json* member_ = nullptr;         // destination of the last key's value
  std::vector<json*> open_;        // from the root to the innermost open array or object
  std::vector<std::string> keys_;  // the last key of each open object
  Size size_;
  Size kept_;  // size_ before the element that is being read, which may be taken
};

json parse_tree(const TextPieces& text, const std::string& name, const TakeJsonElement& take,
                const Reading& reading) {
  Source source(text, name);
  TreeBuilder builder(name, source, take, reading);
  json::sax_parse(SourceIterator(&source), SourceIterator(), &builder);
  return builder.take();
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMostShown = 80;
  const bool cut = text.size() > kMostShown;
  const json shown(text.substr(0, kMostShown));
  return shown.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + (cut ? "…" : "");
}

json parse_json_text(std::string_view text, const std::string& name, int most_depth) {
  return parse_tree(one_piece(text), name, {}, {.most_depth = most_depth});
}

json parse_json_elements(const TextPieces& text, const std::string& name, const TakeJsonElement& take) {
  return parse_tree(text, name, take, {});
}

json parse_json_file(const std::filesystem::path& path, std::size_t size_limit) {
  std::string text = read_text_file(path, size_limit);
  const bool has_named_numbers = replace_named_numbers(text);
  return parse_tree(one_piece(text), path.string(), {}, {.has_named_numbers = has_named_numbers});
}

}  // namespace serval
