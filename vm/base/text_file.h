// Text of files, at once or piece by piece. The size is checked before anything is allocated for it.
//
// Every failure is one line, serval::Error(kRuntime), that begins with the file's path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace serval {

// The next piece of a text, which lasts until the next call; empty: the text has ended.
using TextPieces = std::function<std::string_view()>;

// A text that is there, in one piece.
TextPieces one_piece(std::string_view text);

// A file that is read from its begin to its end. Not thread-safe.
class TextFile {
 public:
  // Throws unless it is a regular file of at most `size_limit` bytes.
  TextFile(const std::filesystem::path& path, std::uint64_t size_limit);

  std::uint64_t size() const { return size_; }
  // As TextPieces. Throws if the file is shorter than it was.
  std::string_view next();

 private:
  std::string name_;
  std::uint64_t size_ = 0, read_ = 0;
  std::ifstream in_;
  std::string piece_;
};

std::string read_text_file(const std::filesystem::path& path, std::size_t size_limit);

}  // namespace serval
