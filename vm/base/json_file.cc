#include "vm/base/json_file.h"

#include <cstdint>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
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

// Walks the text and leaves in `*offset` how many bytes the parser has taken, which its callbacks are not
// told.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, std::size_t* offset) : at_(at), offset_(offset) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*offset_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_ = nullptr;
  std::size_t* offset_ = nullptr;
};

// The library's message is "[json.exception…] parse error at line L, column C: REASON; last read: 'BYTES'…",
// or
// "[json.exception…] REASON". Only REASON is sure to be one line of text, and it may quote a long number.
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

// Builds the tree as nlohmann::json::parse would, and refuses what that would let pass.
class TreeBuilder {
 public:
  TreeBuilder(const std::string& name, const std::size_t* offset, const TakeJsonElement& take)
      : name_(name), offset_(offset), take_(take) {}

  json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // JSON text has no binary values

  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto [member, inserted] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!inserted) fail_here(fmt::format("key {} appears twice in one object", in_quotes(name)));
    member_ = &member->second;
    if (open_.size() == 1) root_member_ = name;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const json::exception& error) {
    fail(name_, fmt::format("byte {}: not JSON: {}", byte, reason_of(error.what())));
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const {
    fail(name_, fmt::format("byte {}: {}", *offset_, what));
  }

  // Puts a value where the text has it, and returns where that is.
  json* place(json&& value) {
    if (++values_ > kMaxJsonValues) fail_here(fmt::format("more than {} values", kMaxJsonValues));
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

  // A value is complete. An element of the root's member may be taken, and then it is as if it had not been.
  bool finish() {
    if (!take_ || open_.size() != 2 || !open_.back()->is_array() || !root_.is_object()) return true;
    auto& elements = open_.back()->get_ref<json::array_t&>();
    if (take_(root_member_, elements.back())) {
      elements.pop_back();
      values_ = kept_;
    } else {
      kept_ = values_;
    }
    return true;
  }

  bool open(json value) {
    if (open_.size() == kMaxJsonDepth) fail_here(fmt::format("nested deeper than {}", kMaxJsonDepth));
    open_.push_back(place(std::move(value)));
    if (open_.size() == 2) kept_ = values_;
    return true;
  }

  bool close() {
    open_.pop_back();
    return finish();
  }

  const std::string& name_;
  const std::size_t* offset_;
  const TakeJsonElement& take_;  // may be empty
  json root_;
  json* member_ = nullptr;   // where the value of the last key goes
  std::string root_member_;  // the root's key that was last
  std::vector<json*> open_;  // from the root to the innermost open array or object
  std::size_t values_ = 0;
  std::size_t kept_ = 0;  // without the element of a root's member that is being read
};

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::size_t size_limit) {
  const std::string name = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(name, "no such file");
  if (!std::filesystem::is_regular_file(status)) fail(name, "not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(name, error.message());
  if (size > size_limit) fail(name, fmt::format("{} bytes; limit: {}", size, size_limit));

  std::ifstream in(path, std::ios::binary);
  if (!in) fail(name, "cannot be opened for reading");
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(in.gcount()) != size) {
    fail(name, fmt::format("read {} of {} bytes", in.gcount(), size));
  }
  return text;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMostShown = 80;
  const bool cut = text.size() > kMostShown;
  const json shown(text.substr(0, kMostShown));
  return shown.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + (cut ? "…" : "");
}

json parse_json_text(std::string_view text, const std::string& name) {
  return parse_json_elements(text, name, {});
}

json parse_json_elements(std::string_view text, const std::string& name, const TakeJsonElement& take) {
  // The parser takes a zero byte for the end of its input and would accept whatever follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    throw Error(ErrorKind::kRuntime, name + ": byte " + std::to_string(zero + 1) + ": a zero byte");
  }
  std::size_t offset = 0;
  TreeBuilder builder(name, &offset, take);
  const CountingIterator begin(text.data(), &offset);
  const CountingIterator end(text.data() + text.size(), &offset);
  json::sax_parse(begin, end, &builder);
  return builder.take();
}

json parse_json_file(const std::filesystem::path& path, std::size_t size_limit) {
  return parse_json_text(read_text_file(path, size_limit), path.string());
}

}  // namespace serval
