#include "runtime/stream/record.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/proto/codec.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/packing.hpp"

namespace cohort::stream {
namespace {

constexpr std::array<std::pair<RecordType, std::string_view>, 9> k_names = {{
    {RecordType::run_config, "run_config"},
    {RecordType::plan, "plan"},
    {RecordType::trajectory, "trajectory"},
    {RecordType::phase, "phase"},
    {RecordType::weight_version, "weight_version"},
    {RecordType::advantages, "advantages"},
    {RecordType::step_result, "step_result"},
    {RecordType::event, "event"},
    {RecordType::checkpoint, "checkpoint"},
}};

Expected<RecordKey> key_of_json(RecordType type, std::span<const std::byte> header) {
  std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    return Error{Errc::invalid_argument,
                 fmt::format("{} record: its header is not a JSON object", to_string(type))};
  RecordKey key;
  auto step = json.find("step");
  if (step != json.end() && step->is_number_unsigned()) key.step = step->get<uint64_t>();
  return key;
}

Expected<RecordKey> key_of_trajectory(std::span<const std::byte> header,
                                      std::span<const std::byte> columns) {
  auto batch = proto::decode_batch(header, columns);
  if (!batch) return Error{Errc::invalid_argument, batch.error().detail};
  if (batch->size() != 1)
    return Error{Errc::invalid_argument,
                 fmt::format("trajectory record: a batch of {}, not of 1", batch->size())};
  const proto::Trajectory& x = batch->front();
  return RecordKey{x.key.step, x.key, x.attempt};
}

}  // namespace

std::string_view to_string(RecordType type) {
  for (const auto& [value, name] : k_names)
    if (value == type) return name;
  return "unknown";
}

std::optional<RecordType> parse_record_type(std::string_view name) {
  for (const auto& [value, text] : k_names)
    if (text == name) return value;
  return std::nullopt;
}

uint64_t RecordInfo::size_bytes() const {
  return record_bytes(stored_header_bytes(), columns_bytes);
}

std::string RecordInfo::describe() const {
  std::string what(to_string(type));
  if (key.trajectory)
    what += " " + proto::to_string(*key.trajectory);
  else if (key.step)
    what += fmt::format(" of step {}", *key.step);
  return fmt::format("record {} ({}) in segment {} at {}", number, what, id.segment, id.offset);
}

std::span<const std::byte> Record::header() const {
  return body.bytes().subspan(0, info.header_bytes);
}

std::span<const std::byte> Record::columns() const {
  return body.bytes().subspan(align_up(info.header_bytes), columns_bytes);
}

std::string_view Record::text() const {
  return {reinterpret_cast<const char*>(header().data()), header().size()};
}

Expected<proto::Trajectory> Record::trajectory() const {
  if (info.type != RecordType::trajectory)
    return Error{Errc::corrupt, info.describe() + ": not a trajectory"};
  auto batch = proto::decode_batch(header(), columns());
  if (!batch) return batch.error().with_context(info.describe());
  if (batch->size() != 1)
    return Error{Errc::corrupt, info.describe() + ": not exactly one trajectory"};
  return std::move(batch->front());
}

Expected<Record> record_of(const RecordInfo& info, uint64_t checksum, tensor::Buffer stored) {
  const std::span<const std::byte> body = stored.bytes();
  const auto header = body.first(info.stored_header_bytes());
  const auto columns = body.subspan(align_up(header.size()), info.columns_bytes);
  if (checksum != body_checksum(header, columns))
    return Error{Errc::corrupt, "header or columns do not match their checksum"};
  if (!is_padding_zero(info, body)) return Error{Errc::corrupt, "the padding is not zero"};
  if (!info.is_packed) return Record{info, std::move(stored), info.columns_bytes};
  COHORT_ASSIGN(Unpacked unpacked, unpack(columns, info.header_bytes));
  return Record{info, std::move(unpacked.body), unpacked.columns_bytes};
}

Expected<RecordKey> key_of(RecordType type, std::span<const std::byte> header,
                           std::span<const std::byte> columns) {
  if (type == RecordType::trajectory) return key_of_trajectory(header, columns);
  if (!columns.empty())
    return Error{Errc::invalid_argument,
                 fmt::format("{} record: only trajectories have columns", to_string(type))};
  return key_of_json(type, header);
}

}  // namespace cohort::stream
