// A string of a template. It records for each byte whether it comes from the template or from its data, so
// that the tokenizer can distinguish a control token of the template from the same characters in a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace serval::jinja {

enum class Origin : char { kTemplate, kData };

// Valid UTF-8. Offsets and sizes count bytes unless a name says characters.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::kTemplate)
      : bytes_(std::move(bytes)), origins_(bytes_.size(), static_cast<char>(origin)) {}

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Origin origin(std::size_t byte) const { return static_cast<Origin>(origins_[byte]); }

  void append(const Text& more);
  void append(std::string_view bytes, Origin origin);
  Text slice(std::size_t begin, std::size_t end) const;

  std::size_t characters() const;
  // The offset of each character, followed by size().
  std::vector<std::size_t> boundaries() const;

  // Removes white space, or the characters of `chars`, at one or both ends.
  enum class Ends { kBoth, kLeft, kRight };
  Text stripped(Ends ends) const;
  Text stripped(Ends ends, std::string_view chars) const;

  // Replaces at most `most` occurrences of `what`, which must not be empty.
  Text replaced(std::string_view what, const Text& with, std::size_t most) const;

 private:
  template <typename Strips>
  Text stripped_where(Ends ends, Strips strips) const;

  std::string bytes_;
  std::string origins_;  // an Origin for each byte
};

Text operator+(Text a, const Text& b);

// White space of Python's str.strip(): Unicode's White_Space and U+001C to U+001F.
bool is_python_space(std::string_view character);

}  // namespace serval::jinja
