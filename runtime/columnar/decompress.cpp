#include "runtime/columnar/decompress.hpp"

#include <fmt/format.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

namespace cohort::columnar {
namespace {

constexpr size_t k_first_bytes = size_t{64} << 10;
// A copy of 64 bytes takes 3 in snappy.
constexpr size_t k_snappy_ratio_max = 22;

Error damaged(Codec codec) {
  return {Errc::corrupt,
          fmt::format("its {} bytes are damaged, or not as many as it says", name_of(codec))};
}

/// Room for more output: doubled, at most `size_bytes`. False if it is full.
bool grow(std::string& out, size_t used, size_t size_bytes) {
  if (used == size_bytes) return false;
  const size_t next = std::min(size_bytes, std::max(k_first_bytes, used * 2));
  if (next > out.size()) {
    out.reserve(next);
    out.resize(next);
  }
  return true;
}

Expected<std::string> from_snappy(std::string_view bytes, size_t size_bytes) {
  size_t size = 0;
  if (!snappy::GetUncompressedLength(bytes.data(), bytes.size(), &size) || size != size_bytes ||
      size / k_snappy_ratio_max > bytes.size())
    return damaged(Codec::snappy);
  std::string out(size, '\0');
  if (!snappy::RawUncompress(bytes.data(), bytes.size(), out.data())) return damaged(Codec::snappy);
  return out;
}

/// gzip, whose members may follow each other, and zlib's own header.
Expected<std::string> from_gzip(std::string_view bytes, size_t size_bytes) {
  static constexpr int k_gzip_or_zlib = 15 + 32;
  z_stream stream{};
  if (inflateInit2(&stream, k_gzip_or_zlib) != Z_OK)
    return Error{Errc::internal, "zlib does not start"};
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, inflateEnd);
  std::string out;
  size_t used = 0;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  while (grow(out, used, size_bytes)) {
    const size_t room = out.size() - used;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const size_t made = room - stream.avail_out;
    used += made;
    if (status == Z_STREAM_END) {
      if (stream.avail_in == 0 || inflateReset(&stream) != Z_OK) break;
    } else if (status != Z_OK) {
      break;
    }
  }
  if (used != size_bytes) return damaged(Codec::gzip);
  return out;
}

Expected<std::string> from_zstd(std::string_view bytes, size_t size_bytes) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  if (!context) return Error{Errc::internal, "zstd does not start"};
  static constexpr int k_window_log_max = 23;  // 8 MiB: what a frame may make zstd allocate
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, k_window_log_max);
  std::string out;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t used = 0;
  while (grow(out, used, size_bytes)) {
    ZSTD_outBuffer target{out.data(), out.size(), used};
    const size_t status = ZSTD_decompressStream(context.get(), &target, &in);
    if (ZSTD_isError(status) != 0 || (target.pos == used && in.pos == in.size)) break;
    used = target.pos;
  }
  if (used != size_bytes) return damaged(Codec::zstd);
  return out;
}

}  // namespace

Expected<std::string> decompress(Codec codec, std::string_view bytes, size_t size_bytes) {
  switch (codec) {
    case Codec::none:
      if (bytes.size() != size_bytes) return damaged(codec);
      return std::string(bytes);
    case Codec::snappy:
      return from_snappy(bytes, size_bytes);
    case Codec::gzip:
      return from_gzip(bytes, size_bytes);
    case Codec::zstd:
      return from_zstd(bytes, size_bytes);
  }
  return Error{Errc::unsupported,
               fmt::format("codec {} is not read; write the file with zstd, snappy, gzip or none",
                           name_of(codec))};
}

}  // namespace cohort::columnar
