#pragma once
/// TensorBoard event files without TensorFlow: TFRecord framing (length, masked crc32c, data,
/// masked crc32c) around Event protobufs encoded by hand. Golden bytes:
/// tests/golden/data/tensorboard*, which the tensorboard package was seen to read
/// (tools/golden/make_tensorboard_golden.py). Owner: one thread (the driver's). Bound: 64 KiB of
/// buffered events.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/base/histogram.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::observe {

struct TensorBoardOptions {
  std::filesystem::path folder;         // created if absent
  std::string host;                     // empty: this machine's name
  std::function<double()> clock;        // seconds since the epoch; empty: the system clock
  std::optional<uint64_t> resume_step;  // first step that this session writes (again): TensorBoard
                                        // drops events of earlier files at or after it
};

/// Writes events.out.tfevents.<seconds>.<host>.cohort. Movable, not copyable, not thread-safe.
class TensorBoardWriter {
 public:
  /// Creates a new file that sorts after every file of an earlier session, and writes its head
  /// (brain.Event:2, then SessionLog START if resume_step is set). Returns Errc::io naming the
  /// path.
  static Expected<TensorBoardWriter> open(TensorBoardOptions options);
  TensorBoardWriter(TensorBoardWriter&&) noexcept = default;
  TensorBoardWriter& operator=(TensorBoardWriter&&) = delete;
  /// Flushes and closes if close() was not called.
  ~TensorBoardWriter();

  /// Writes every number of `row` as one event; texts and NaN are left out. Flushes.
  Expected<void> scalars(const MetricRow& row);
  /// Writes all of `named` as one event, for the HISTOGRAMS and DISTRIBUTIONS tabs. Flushes.
  Expected<void> histograms(uint64_t step, const NamedHistograms& named);
  /// Writes `markdown` for the TEXT tab; bytes that are not UTF-8 become U+FFFD.
  Expected<void> text(std::string_view tag, uint64_t step, std::string_view markdown);
  Expected<void> flush();
  /// Flushes and closes; later calls return Errc::closed.
  Expected<void> close();
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  TensorBoardWriter() = default;
  Expected<void> record(std::string_view event);
  Expected<void> record_summary(uint64_t step, std::string_view summary);
  std::string event_head(std::optional<uint64_t> step) const;

  std::function<double()> clock_;
  File file_;
  std::string buffer_;
};

/// CRC-32C (Castagnoli), as RFC 3720 B.4.
uint32_t crc32c(std::span<const std::byte> bytes);
/// TFRecord's mask over crc32c: rotated right by 15 bits plus 0xa282ead8.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace cohort::observe
