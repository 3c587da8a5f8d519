#include "runtime/stream/packing.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/stream/format.hpp"

namespace cohort::stream {
namespace {

// Levels that keep appending at 0.6 of the speed of records that are not packed (traj_bench). The
// texts of a game are worth a search: -1 packs by a tenth more, at half the speed, -16 by a tenth
// less. In a long answer nearly all is tokens and log-probs, in which a search finds nothing:
// levels -1 to -16 leave 0.694 to 0.706 of the bytes, at 0.37 to 0.65 of the speed.
constexpr int k_level = -4, k_level_long = -16;
constexpr uint64_t k_long_bytes = 16 << 10;
// What is larger is stored as it is, so that a damaged or hostile frame cannot ask for more.
constexpr uint64_t k_raw_bytes_max = uint64_t{1} << 30;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Error damaged(std::string_view what) {
  return {Errc::corrupt, fmt::format("the packed record cannot be unpacked: {}", what)};
}

}  // namespace

std::span<const std::byte> pack(std::span<const std::byte> header,
                                std::span<const std::byte> columns) {
  const uint64_t raw_bytes = header.size() + columns.size();
  if (raw_bytes > k_raw_bytes_max) return {};
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  thread_local std::vector<std::byte> raw;
  if (!context) return {};
  raw.clear();
  append(raw, header);
  append(raw, columns);
  thread_local std::vector<std::byte> frame;
  frame.resize(std::max(frame.size(), ZSTD_compressBound(raw.size())));
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel,
                         raw_bytes < k_long_bytes ? k_level : k_level_long);
  const size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), raw.data(), raw.size());
  if (ZSTD_isError(size) != 0) return {};
  if (align_up(size) >= align_up(header.size()) + align_up(columns.size())) return {};
  return std::span(frame).first(size);
}

Expected<Unpacked> unpack(std::span<const std::byte> frame, uint64_t header_bytes) {
  const unsigned long long raw_bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (raw_bytes == ZSTD_CONTENTSIZE_ERROR || raw_bytes == ZSTD_CONTENTSIZE_UNKNOWN)
    return damaged("no zstd frame that says its size");
  if (raw_bytes > k_raw_bytes_max || raw_bytes < header_bytes)
    return damaged(fmt::format("{} bytes for a header of {}", raw_bytes, header_bytes));
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (!context) return Error{Errc::internal, "zstd does not start"};
  const uint64_t begin = align_up(header_bytes), columns_bytes = raw_bytes - header_bytes;
  Unpacked result{tensor::Buffer::allocate(begin + align_up(columns_bytes)), columns_bytes};
  const std::span<std::byte> body = result.body.mutable_bytes();
  const size_t size =
      ZSTD_decompressDCtx(context.get(), body.data(), raw_bytes, frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) return damaged(ZSTD_getErrorName(size));
  if (size != raw_bytes) return damaged("it is shorter than it says");
  std::memmove(body.data() + begin, body.data() + header_bytes, columns_bytes);
  std::memset(body.data() + header_bytes, 0, begin - header_bytes);
  std::memset(body.data() + begin + columns_bytes, 0, body.size() - begin - columns_bytes);
  return result;
}

}  // namespace cohort::stream
