#include "runtime/observe/tensorboard.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "runtime/base/host_name.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_buffer_bytes = 64 * 1024;
constexpr uint32_t k_mask_delta = 0xa282ead8;  // TFRecord: so that a crc over crcs stays strong
constexpr int k_dtype_double = 2;              // tensorflow.DataType.DT_DOUBLE
constexpr int k_dtype_string = 7;              // tensorflow.DataType.DT_STRING
constexpr int k_class_tensor = 2;              // tensorboard DataClass.DATA_CLASS_TENSOR
constexpr int k_session_start = 1;             // tensorflow.SessionLog.START

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> k_crc_table = make_crc_table();

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

// Protobuf's wire format: a key is field << 3 | wire type (0 varint, 1 fixed 64, 2
// length-delimited, 5 fixed 32).
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}
void append_int(std::string& out, uint32_t field, uint64_t value) {
  append_varint(out, field << 3);
  append_varint(out, value);
}
void append_double(std::string& out, uint32_t field, double value) {
  append_varint(out, field << 3 | 1);
  append_little_endian(out, std::bit_cast<uint64_t>(value));
}
void append_float(std::string& out, uint32_t field, float value) {
  append_varint(out, field << 3 | 5);
  append_little_endian(out, std::bit_cast<uint32_t>(value));
}
void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  append_varint(out, field << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}

/// Returns Summary.Value {1: tag, 2: simple_value}.
std::string scalar_value(std::string_view tag, double value) {
  std::string out;
  append_bytes(out, 1, tag);
  append_float(out, 2, static_cast<float>(value));
  return out;
}

/// Returns TensorShapeProto of these sizes.
std::string shape_of(std::initializer_list<uint64_t> sizes) {
  std::string shape;
  for (uint64_t size : sizes) {
    std::string dimension;
    append_int(dimension, 1, size);
    append_bytes(shape, 2, dimension);
  }
  return shape;
}

/// Returns Summary.Value {1: tag, 8: TensorProto, 9: SummaryMetadata of the plugin}.
std::string tensor_value(std::string_view tag, std::string_view tensor, std::string_view plugin) {
  std::string plugin_data;
  append_bytes(plugin_data, 1, plugin);
  std::string metadata;
  append_bytes(metadata, 1, plugin_data);
  append_int(metadata, 4, k_class_tensor);
  std::string out;
  append_bytes(out, 1, tag);
  append_bytes(out, 8, tensor);
  append_bytes(out, 9, metadata);
  return out;
}

std::string text_value(std::string_view tag, std::string_view text) {
  std::string tensor;
  append_int(tensor, 1, k_dtype_string);
  append_bytes(tensor, 2, shape_of({1}));
  append_bytes(tensor, 8, text);  // string_val
  return tensor_value(tag, tensor, "text");
}

/// The histograms plugin reads a tensor [bins, 3] of (lower edge, upper edge, count).
std::string histogram_value(std::string_view tag, const Histogram& x) {
  std::string rows;
  for (size_t i = 0; i < x.counts.size(); ++i)
    for (double number : {x.edge(i), x.edge(i + 1), static_cast<double>(x.counts[i])})
      append_little_endian(rows, std::bit_cast<uint64_t>(number));
  std::string tensor;
  append_int(tensor, 1, k_dtype_double);
  append_bytes(tensor, 2, shape_of({x.counts.size(), 3}));
  append_bytes(tensor, 4, rows);  // tensor_content
  return tensor_value(tag, tensor, "histograms");
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the seconds in the name of the folder's newest event file, or nothing.
std::optional<uint64_t> newest_file_seconds(const std::filesystem::path& folder) {
  constexpr std::string_view k_prefix = "events.out.tfevents.";
  std::optional<uint64_t> newest;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(k_prefix)) continue;
    uint64_t seconds = std::strtoull(name.c_str() + k_prefix.size(), nullptr, 10);
    newest = std::max(newest.value_or(0), seconds);
  }
  return newest;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffffU;
  for (std::byte byte : bytes)
    crc = (crc >> 8) ^ k_crc_table[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + k_mask_delta;
}

Expected<TensorBoardWriter> TensorBoardWriter::open(TensorBoardOptions options) {
  TensorBoardWriter writer;
  writer.clock_ = options.clock ? std::move(options.clock) : system_seconds;
  std::string host = options.host.empty() ? host_name() : options.host;
  auto seconds = static_cast<uint64_t>(std::max(0.0, writer.clock_()));
  // TensorBoard reads a folder's files in the order of their names: a resume within one second
  // comes later
  if (auto newest = newest_file_seconds(options.folder); newest && *newest >= seconds)
    seconds = *newest + 1;
  std::string name = fmt::format("events.out.tfevents.{:010}.{}.cohort", seconds, host);
  COHORT_ASSIGN(writer.file_, File::open(options.folder / name, File::Mode::create_new));
  std::string version = writer.event_head(std::nullopt);
  append_bytes(version, 3, "brain.Event:2");
  COHORT_TRY(writer.record(version));
  if (options.resume_step) {
    std::string log;
    append_int(log, 1, k_session_start);
    std::string start = writer.event_head(options.resume_step);
    append_bytes(start, 7, log);
    COHORT_TRY(writer.record(start));
  }
  COHORT_TRY(writer.flush());
  return writer;
}

TensorBoardWriter::~TensorBoardWriter() {
  auto closed = close();  // a destructor has nobody to tell
  static_cast<void>(closed);
}

std::string TensorBoardWriter::event_head(std::optional<uint64_t> step) const {
  std::string event;
  append_double(event, 1, clock_());
  if (step) append_int(event, 2, *step);
  return event;
}

Expected<void> TensorBoardWriter::scalars(const MetricRow& row) {
  std::string summary;
  for (const Metric& metric : row.metrics()) {
    const auto* number = std::get_if<double>(&metric.value);
    if (number != nullptr && !std::isnan(*number))
      append_bytes(summary, 1, scalar_value(metric.name, *number));
  }
  if (!summary.empty()) COHORT_TRY(record_summary(row.step(), summary));
  return flush();
}

Expected<void> TensorBoardWriter::histograms(uint64_t step, const NamedHistograms& named) {
  std::string summary;
  for (const auto& [tag, histogram] : named)
    append_bytes(summary, 1, histogram_value(tag, histogram));
  if (!summary.empty()) COHORT_TRY(record_summary(step, summary));
  return flush();
}

Expected<void> TensorBoardWriter::text(std::string_view tag, uint64_t step,
                                       std::string_view markdown) {
  // Its reader decodes strictly; what a policy says may be any bytes.
  const auto valid = nlohmann::json::parse(json_text(markdown)).get<std::string>();
  std::string summary;
  append_bytes(summary, 1, text_value(tag, valid));
  return record_summary(step, summary);
}

Expected<void> TensorBoardWriter::record_summary(uint64_t step, std::string_view summary) {
  std::string event = event_head(step);
  append_bytes(event, 5, summary);
  return record(event);
}

Expected<void> TensorBoardWriter::record(std::string_view event) {
  if (!file_.is_open())
    return Error{Errc::closed, fmt::format("{}: write after close", path().string())};
  std::string length;
  append_little_endian(length, static_cast<uint64_t>(event.size()));
  buffer_ += length;
  append_little_endian(buffer_, masked_crc32c(bytes_of(length)));
  buffer_ += event;
  append_little_endian(buffer_, masked_crc32c(bytes_of(event)));
  return buffer_.size() >= k_buffer_bytes ? flush() : Expected<void>{};
}

Expected<void> TensorBoardWriter::flush() {
  if (buffer_.empty()) return {};
  std::string bytes;
  bytes.swap(
      buffer_);  // a failed write is not repeated: half a record would be followed by its whole
  return file_.write(bytes);
}

Expected<void> TensorBoardWriter::close() {
  if (!file_.is_open()) return {};
  auto flushed = flush();
  COHORT_TRY(file_.close());
  return flushed;
}

}  // namespace cohort::observe
