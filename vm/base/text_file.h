// Reads text files, whole or piece by piece. The size is checked before anything is allocated for it.
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

// Returns the next piece of a text, valid until the next call; an empty piece at the end.
using TextPieces = std::function<std::string_view()>;

// A text in memory, as one piece.
TextPieces one_piece(std::string_view text);

// A file that is read from begin to end. Not thread-safe.
class TextFile {
 public:
  // Throws unless `path` is a regular file of at most `size_limit` bytes.
  TextFile(const std::filesystem::path& path, std::uint64_t size_limit);

  std::uint64_t size() const { return size_; }
  // Returns the next piece, as TextPieces. Throws if the file has become shorter.
  std::string_view next();

 private:
  std::string name_;
  std::uint64_t size_ = 0, read_ = 0;
  std::ifstream in_;
  std::string piece_;
};

std::string read_text_file(const std::filesystem::path& path, std::size_t size_limit);

}  // namespace serval
