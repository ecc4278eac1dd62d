#include "profiler/chrome/gzip.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <zlib.h>

#include "vm/base/error.h"

namespace serval {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // tells zlib to use gzip's header and trailer
constexpr int kMemoryLevel = 8;              // zlib's default
constexpr size_t kPiece = size_t{1} << 20;   // bytes that the output grows by

// zlib counts its input in 32 bits.
void feed(z_stream& stream, std::string_view& text) {
  if (stream.avail_in > 0 || text.empty()) return;
  const size_t piece = std::min(text.size(), kPiece);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(piece);
  text.remove_prefix(piece);
}

// Runs `step` with room for another piece of output; returns the result of `step`.
template <class Step>
int grow(z_stream& stream, std::string& out, Step&& step) {
  const size_t before = out.size();
  out.resize(before + kPiece);
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  stream.avail_out = static_cast<uInt>(kPiece);
  const int result = step();
  out.resize(out.size() - stream.avail_out);
  return result;
}

}  // namespace

struct Gzip::Stream {
  z_stream zlib{};
  Stream() {
    if (deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw Error(ErrorKind::kOutOfMemory, "out of memory for compression");
    }
  }
  ~Stream() { deflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

Gzip::Gzip(TakePiece take) : take_(std::move(take)), stream_(std::make_unique<Stream>()) {}

Gzip::~Gzip() = default;

void Gzip::write(std::string_view text) {
  compress(text, /*last=*/false);
}

void Gzip::finish() {
  compress({}, /*last=*/true);
}

void Gzip::compress(std::string_view text, bool last) {
  z_stream& stream = stream_->zlib;
  bool more = true;
  while (more) {
    feed(stream, text);
    piece_.clear();
    const int result = grow(stream, piece_, [&] { return deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH); });
    take_(piece_);
    more = last ? result != Z_STREAM_END : stream.avail_in > 0 || !text.empty();
  }
}

std::string gzip(std::string_view text) {
  std::string out;
  Gzip data([&](std::string_view piece) { out += piece; });
  data.write(text);
  data.finish();
  return out;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

struct Gunzip::Stream {
  z_stream zlib{};
  Stream() {
    if (inflateInit2(&zlib, kGzipWindow) != Z_OK)
      throw Error(ErrorKind::kOutOfMemory, "out of memory for decompression");
  }
  ~Stream() { inflateEnd(&zlib); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

Gunzip::Gunzip(TextPieces bytes, uint64_t limit, std::string name)
    : bytes_(std::move(bytes)), limit_(limit), name_(std::move(name)), stream_(std::make_unique<Stream>()) {}

Gunzip::~Gunzip() = default;

void Gunzip::refuse(const std::string& what) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: gzip: {}", name_, what));
}

std::string_view Gunzip::next() {
  if (ended_) return {};
  z_stream& stream = stream_->zlib;
  piece_.clear();
  const int result = grow(stream, piece_, [&] {
    int step = Z_OK;
    while (step == Z_OK && stream.avail_out > 0) {
      if (stream.avail_in == 0 && rest_.empty()) rest_ = bytes_();
      feed(stream, rest_);
      step = inflate(&stream, Z_NO_FLUSH);
    }
    return step;
  });
  given_ += piece_.size();
  if (given_ > limit_) refuse(fmt::format("more than {} bytes of text", limit_));
  ended_ = result == Z_STREAM_END;
  if (result == Z_BUF_ERROR) refuse("the data ends early");
  if (result != Z_OK && !ended_) refuse("the data is damaged");
  if (ended_ && (stream.avail_in > 0 || !rest_.empty() || !bytes_().empty()))
    refuse("the file continues after the compressed data");
  return piece_;
}

}  // namespace serval
