#include "runtime/stream/index_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "runtime/stream/format.hpp"
#include "runtime/stream/stream_file.hpp"

namespace cohort::stream {
namespace {

/// Numbers of the sidecars in the folder.
std::vector<uint32_t> list_sidecars(const std::filesystem::path& folder) {
  constexpr std::string_view k_prefix = "segment-", k_suffix = ".index";
  std::vector<uint32_t> numbers;
  std::error_code code;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    std::string_view text = name;
    if (!text.starts_with(k_prefix) || !text.ends_with(k_suffix)) continue;
    text = text.substr(k_prefix.size(), text.size() - k_prefix.size() - k_suffix.size());
    uint32_t number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status == std::errc{} && rest == text.data() + text.size()) numbers.push_back(number);
  }
  return numbers;
}

/// The last proven entry of a sidecar, if it holds.
std::optional<RecordInfo> last_entry(const std::filesystem::path& folder, uint32_t segment,
                                     uint64_t stream_id) {
  const auto file = File::open(index_path(folder, segment), OpenMode::read);
  if (!file) return std::nullopt;
  Block block{};
  const auto header_read = file->read(0, block);
  if (!header_read || *header_read < block.size()) return std::nullopt;
  const auto header = decode_index_header(block);
  if (!header || header->stream_id != stream_id || header->segment != segment) return std::nullopt;
  if (header->proven == 0) return std::nullopt;
  const auto entry_read =
      file->read(k_index_header_bytes + (header->proven - 1) * k_index_entry_bytes, block);
  if (!entry_read || *entry_read < block.size()) return std::nullopt;
  return decode_index_entry(block, *header);
}

/// Of the records from `first` on, before `behind`.
std::string lost_text(uint64_t first, uint64_t behind) {
  if (behind == first + 1) return fmt::format("record {} is lost", first);
  return fmt::format("records {} to {} are lost", first, behind - 1);
}

}  // namespace

IndexProof IndexProof::read(const std::filesystem::path& folder, uint64_t stream_id) {
  IndexProof proof;
  proof.folder_ = folder;
  for (const uint32_t segment : list_sidecars(folder)) {
    const auto entry = last_entry(folder, segment, stream_id);
    if (!entry) continue;
    Held& held = proof.held_[segment];
    held.end = std::max(held.end, entry->id.offset + entry->size_bytes());
    held.next_record = entry->number + 1;
  }
  return proof;
}

std::optional<Damage> IndexProof::lost_in(uint32_t segment, uint64_t end,
                                          uint64_t next_record) const {
  const auto found = held_.find(segment);
  if (found == held_.end() || found->second.end <= end) return std::nullopt;
  const Held& held = found->second;
  std::string what = "the segment is shorter than its index says: ";
  if (held.next_record && *held.next_record > next_record)
    what += lost_text(next_record, *held.next_record);
  else
    what += fmt::format("it had {} bytes", held.end);
  return Damage{{segment, std::max(end, k_segment_header_bytes)}, next_record, what, {}, {}, true};
}

std::vector<Damage> IndexProof::lost_behind(uint32_t last, uint64_t next_record) const {
  std::vector<Damage> lost;
  for (auto at = held_.upper_bound(last); at != held_.end(); ++at) {
    std::error_code code;  // a live writer may have made it since the folder was listed
    if (std::filesystem::exists(segment_path(folder_, at->first), code)) continue;
    const uint64_t behind = std::max(next_record, at->second.next_record.value_or(0));
    std::string what = "the segment's file is missing: ";
    what += behind > next_record ? lost_text(next_record, behind)
                                 : fmt::format("it had {} bytes", at->second.end);
    lost.push_back({{at->first, 0}, next_record, std::move(what), {}, {}, true});
    next_record = behind;
  }
  return lost;
}

uint64_t IndexProof::next_record_in(uint32_t segment) const {
  const auto found = held_.find(segment);
  return found == held_.end() ? 0 : found->second.next_record.value_or(0);
}

uint64_t IndexProof::next_record() const {
  uint64_t next = 0;
  for (const auto& [segment, held] : held_) next = std::max(next, held.next_record.value_or(0));
  return next;
}

std::optional<uint32_t> IndexProof::last() const {
  return held_.empty() ? std::nullopt : std::optional(held_.rbegin()->first);
}

}  // namespace cohort::stream
