#include "runtime/compute/train/checkpoint_slices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cohort::compute {
namespace {

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::string slice_name(std::string_view tensor, const TensorPart& part) {
  return fmt::format("{}[{}:{}]", tensor, part.begin, part.end);
}

std::optional<SliceName> parse_slice_name(std::string_view name) {
  const size_t open = name.rfind('['), colon = name.rfind(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open ||
      name.back() != ']')
    return std::nullopt;
  const auto begin = parse_number(name.substr(open + 1, colon - open - 1));
  const auto end = parse_number(name.substr(colon + 1, name.size() - colon - 2));
  if (!begin || !end || *begin >= *end) return std::nullopt;
  return SliceName{std::string(name.substr(0, open)), {*begin, *end}};
}

std::string slice_file(int rank, int ranks) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank, ranks);
}

Expected<void> SliceTable::add(const SafetensorsFile& file, const std::string& where) {
  files_.push_back(file);
  for (const NamedTensor& tensor : file.tensors()) {
    int64_t count = 1;  // the file's reader has checked the product
    for (int64_t extent : tensor.shape) count *= extent;
    SliceName name{tensor.name, {0, count}};
    if (auto slice = parse_slice_name(tensor.name)) name = *slice;
    if (tensor.dtype != "F32" || name.part.count() != count)
      return Error{Errc::corrupt, fmt::format("{}: slice '{}' is {} with {} elements, not F32 with "
                                              "as many as its name says",
                                              where, tensor.name, tensor.dtype, count)};
    auto& slices = slices_[name.tensor];
    Slice slice{name.part, tensor, where};
    auto at =
        std::upper_bound(slices.begin(), slices.end(), slice,
                         [](const auto& a, const auto& b) { return a.part.begin < b.part.begin; });
    slices.insert(at, std::move(slice));
  }
  return {};
}

Expected<void> SliceTable::check(const std::string& tensor, int64_t count,
                                 const TensorPart& part) const {
  auto it = slices_.find(tensor);
  int64_t next = part.begin;
  std::string last = "no file";
  for (size_t i = 0; it != slices_.end() && i < it->second.size(); ++i) {
    const Slice& slice = it->second[i];
    const bool overlaps = i > 0 && slice.part.begin < it->second[i - 1].part.end;
    if (slice.part.end > count || overlaps)
      return Error{
          Errc::corrupt,
          fmt::format("{}: slice '{}' {}", slice.where, slice.source.name,
                      overlaps ? "overlaps the one before it"
                               : fmt::format("ends after the {} elements of the tensor", count))};
    if (slice.part.end <= next || slice.part.begin > next) continue;
    next = slice.part.end;
    last = slice.where;
  }
  if (next >= part.end) return {};
  return Error{Errc::corrupt, fmt::format("checkpoint: elements {}:{} of '{}' are in no file (the "
                                          "part before them: {})",
                                          next, part.end, tensor, last)};
}

void SliceTable::copy(const std::string& tensor, const TensorPart& part,
                      std::span<float> to) const {
  for (const Slice& slice : slices_.find(tensor)->second) {
    const int64_t begin = std::max(part.begin, slice.part.begin);
    const int64_t end = std::min(part.end, slice.part.end);
    if (begin >= end) continue;
    std::memcpy(
        to.data() + (begin - part.begin),
        slice.source.bytes.data() + static_cast<size_t>(begin - slice.part.begin) * sizeof(float),
        static_cast<size_t>(end - begin) * sizeof(float));
  }
}

}  // namespace cohort::compute
