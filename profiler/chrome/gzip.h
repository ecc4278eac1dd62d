// gzip (RFC 1952) in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "vm/base/text_file.h"

namespace serval {

// Receives a text piece by piece.
using TakePiece = std::function<void(std::string_view)>;

// Compresses piece by piece. Exceptions of `take` pass through. Not thread-safe.
class Gzip {
 public:
  explicit Gzip(TakePiece take);
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void write(std::string_view text);
  // Must be the last call.
  void finish();

 private:
  struct Stream;  // zlib's

  void compress(std::string_view text, bool last);

  const TakePiece take_;
  const std::unique_ptr<Stream> stream_;
  std::string piece_;
};

// Compresses the whole text at once.
std::string gzip(std::string_view text);
bool is_gzip(std::string_view bytes);

// Decompresses piece by piece. Throws Error(kRuntime), naming `name`, if the data is damaged, ends early,
// continues after its end, or gives more than `limit` bytes. Exceptions of `bytes` pass through. Not
// thread-safe.
class Gunzip {
 public:
  Gunzip(TextPieces bytes, uint64_t limit, std::string name);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // A TextPieces function: returns the next piece.
  std::string_view next();

 private:
  struct Stream;  // zlib's

  [[noreturn]] void refuse(const std::string& what) const;

  const TextPieces bytes_;
  const uint64_t limit_;
  const std::string name_;
  const std::unique_ptr<Stream> stream_;
  std::string_view rest_;  // not yet decompressed part of the last piece
  std::string piece_;
  uint64_t given_ = 0;
  bool ended_ = false;
};

}  // namespace serval
