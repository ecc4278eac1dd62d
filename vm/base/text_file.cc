#include "vm/base/text_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "vm/base/error.h"

namespace serval {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::kRuntime, name + ": " + what);
}

}  // namespace

TextPieces one_piece(std::string_view text) {
  return [text]() mutable { return std::exchange(text, {}); };
}

TextFile::TextFile(const std::filesystem::path& path, std::uint64_t size_limit) : name_(path.string()) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(name_, "no such file");
  if (!std::filesystem::is_regular_file(status)) fail(name_, "not a regular file");
  size_ = std::filesystem::file_size(path, error);
  if (error) fail(name_, error.message());
  if (size_ > size_limit) fail(name_, fmt::format("{} bytes; limit: {}", size_, size_limit));
  in_.open(path, std::ios::binary);
  if (!in_) fail(name_, "cannot be opened for reading");
}

std::string_view TextFile::next() {
  piece_.resize(std::min(kPieceBytes, size_ - read_));
  if (piece_.empty()) return {};
  in_.read(piece_.data(), static_cast<std::streamsize>(piece_.size()));
  const auto got = static_cast<std::uint64_t>(in_.gcount());
  read_ += got;
  if (got != piece_.size()) fail(name_, fmt::format("read {} of {} bytes", read_, size_));
  return piece_;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t size_limit) {
  TextFile file(path, size_limit);
  std::string text;
  text.reserve(file.size());
  for (std::string_view piece = file.next(); !piece.empty(); piece = file.next()) text += piece;
  return text;
}

}  // namespace serval
