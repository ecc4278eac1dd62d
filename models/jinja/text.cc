#include "models/jinja/text.h"

#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"

namespace serval::jinja {
namespace {

bool begins_character(char c) {
  constexpr unsigned kContinuationMask = 0xC0, kContinuationBits = 0x80;
  return (static_cast<unsigned char>(c) & kContinuationMask) != kContinuationBits;
}

}  // namespace

bool is_python_space(std::string_view character) {
  constexpr std::uint32_t kFirstSeparator = 0x1C, kLastSeparator = 0x1F;
  const std::uint32_t c = code_point(character);
  return is_white_space(character) || (c >= kFirstSeparator && c <= kLastSeparator);
}

void Text::append(const Text& more) {
  bytes_ += more.bytes_;
  origins_ += more.origins_;
}

void Text::append(std::string_view bytes, Origin origin) {
  bytes_ += bytes;
  origins_.append(bytes.size(), static_cast<char>(origin));
}

Text operator+(Text a, const Text& b) {
  a.append(b);
  return a;
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.bytes_ = bytes_.substr(begin, end - begin);
  out.origins_ = origins_.substr(begin, end - begin);
  return out;
}

std::size_t Text::characters() const {
  std::size_t count = 0;
  for (const char c : bytes_) count += begins_character(c) ? 1 : 0;
  return count;
}

std::vector<std::size_t> Text::boundaries() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < size(); ++i) {
    if (begins_character(bytes_[i])) out.push_back(i);
  }
  out.push_back(size());
  return out;
}

template <typename Strips>
Text Text::stripped_where(Ends ends, Strips strips) const {
  std::string_view rest = bytes_;
  while (ends != Ends::kRight && !rest.empty() && strips(first_character(rest)))
    rest.remove_prefix(first_character(rest).size());
  while (ends != Ends::kLeft && !rest.empty() && strips(last_character(rest)))
    rest.remove_suffix(last_character(rest).size());
  const auto begin = static_cast<std::size_t>(rest.data() - bytes_.data());
  return slice(begin, begin + rest.size());
}

Text Text::stripped(Ends ends) const {
  return stripped_where(ends, is_python_space);
}

Text Text::stripped(Ends ends, std::string_view chars) const {
  return stripped_where(ends,
                        [chars](std::string_view character) { return chars.find(character) != chars.npos; });
}

Text Text::replaced(std::string_view what, const Text& with, std::size_t most) const {
  Text out;
  std::size_t done = 0;
  for (std::size_t at; most > 0 && (at = bytes_.find(what, done)) != bytes_.npos; --most) {
    out.append(slice(done, at));
    out.append(with);
    done = at + what.size();
  }
  out.append(slice(done, size()));
  return out;
}

}  // namespace serval::jinja
