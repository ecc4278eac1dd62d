// A string of a template. It knows for each byte whether the template or the data given to it had that byte,
// so that a tokenizer can tell a control token of the template from one that a message spells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace serval::jinja {

enum class Origin : char { kTemplate, kData };

// Valid UTF-8. Offsets count bytes where a name does not say characters.
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
  // Where each character begins, and the size at last.
  std::vector<std::size_t> boundaries() const;

  // Without white space, or the characters of `chars`, at its ends.
  enum class Ends { kBoth, kLeft, kRight };
  Text stripped(Ends ends) const;
  Text stripped(Ends ends, std::string_view chars) const;

  // At most `most` occurrences of `what`, which is not empty, replaced.
  Text replaced(std::string_view what, const Text& with, std::size_t most) const;

 private:
  template <typename Strips>
  Text stripped_where(Ends ends, Strips strips) const;

  std::string bytes_;
  std::string origins_;  // an Origin for each byte
};

Text operator+(Text a, const Text& b);

// White space as Python's str.strip() sees it: four separators more than Unicode's.
bool is_python_space(std::string_view character);

}  // namespace serval::jinja
