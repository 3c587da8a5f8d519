#include "runtime/compute/train/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "runtime/base/waits.hpp"
#include "runtime/compute/train/atomic_folder.hpp"

namespace cohort::compute {
namespace {

using Json = nlohmann::json;

uint64_t element_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, uint64_t> k_sizes[] = {
      {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F8_E4M3", 1}, {"F64", 8}, {"I8", 1},  {"U8", 1},
      {"I16", 2}, {"U16", 2},  {"I32", 4}, {"U32", 4},     {"I64", 8}, {"U64", 8}, {"BOOL", 1}};
  for (auto [name, size] : k_sizes) {
    if (name == dtype) return size;
  }
  return 0;
}

/// Returns the bytes of `shape`, or nothing if a product overflows.
std::optional<uint64_t> shape_bytes(const std::vector<int64_t>& shape, uint64_t element) {
  uint64_t bytes = element;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
      return std::nullopt;
  }
  return bytes;
}

Error corrupt(const std::string& where, const std::string& what) {
  return {Errc::corrupt, where + ": " + what};
}

bool is_unsigned(const Json& value) { return value.is_number_unsigned(); }

Expected<NamedTensor> parse_tensor(const std::string& name, const Json& entry,
                                   std::span<const std::byte> data, const std::string& where) {
  const std::string at = fmt::format("{}: tensor '{}'", where, name);
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    return corrupt(at, "needs exactly dtype, shape and data_offsets");
  const Json &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!entry["dtype"].is_string() || !shape.is_array() ||
      !std::all_of(shape.begin(), shape.end(), is_unsigned) || !offsets.is_array() ||
      offsets.size() != 2 || !is_unsigned(offsets[0]) || !is_unsigned(offsets[1]))
    return corrupt(at, "dtype, shape or data_offsets has the wrong type");
  NamedTensor tensor{name, entry["dtype"].get<std::string>(), {}, {}};
  const uint64_t element = element_bytes(tensor.dtype);
  if (element == 0) return corrupt(at, "unknown dtype " + tensor.dtype);
  for (const Json& extent : shape) {
    if (extent.get<uint64_t>() > INT64_MAX) return corrupt(at, "shape overflows");
    tensor.shape.push_back(extent.get<int64_t>());
  }
  const auto bytes = shape_bytes(tensor.shape, element);
  const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size())
    return corrupt(
        at, fmt::format("bytes {}..{} are outside the {} bytes of data", begin, end, data.size()));
  if (!bytes || *bytes != end - begin)
    return corrupt(at, fmt::format("{} bytes do not fit dtype and shape", end - begin));
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

/// Parses with duplicate keys and deep nesting refused (nlohmann keeps the last of two equal keys).
Expected<Json> parse_strict(std::string_view text, const std::string& where) {
  constexpr int k_depth_max = 4;
  std::vector<std::set<std::string>> keys;
  std::string fault;
  auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > k_depth_max) fault = "header is nested too deeply";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(parsed.get<std::string>()).second)
      fault = "key '" + parsed.get<std::string>() + "' appears twice";
    return fault.empty();
  };
  Json json = Json::parse(text.begin(), text.end(), callback, false);
  if (!fault.empty()) return corrupt(where, fault);
  if (json.is_discarded() || !json.is_object())
    return corrupt(where, "header is not a JSON object");
  return json;
}

Expected<void> check_cover(const std::vector<NamedTensor>& tensors, std::span<const std::byte> data,
                           const std::string& where) {
  const std::byte* next = data.data();
  for (const NamedTensor& tensor : tensors) {
    if (tensor.bytes.data() != next)
      return corrupt(where, fmt::format("tensor '{}' leaves a gap or overlaps", tensor.name));
    next += tensor.bytes.size();
  }
  if (next != data.data() + data.size())
    return corrupt(where, fmt::format("{} bytes of data belong to no tensor",
                                      data.data() + data.size() - next));
  return {};
}

std::string header_text(std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const uint64_t end = offset + *shape_bytes(tensor.shape, element_bytes(tensor.dtype));
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  constexpr size_t k_padding = 64;  // tensors start on a cache line
  while ((text.size() + sizeof(uint64_t)) % k_padding != 0) text += ' ';
  return text;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Expected<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                     std::span<const std::byte> data,
                                                     const std::string& where) {
  COHORT_ASSIGN(Json json, parse_strict(text, where));
  SafetensorsHeader header;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return corrupt(where, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return corrupt(where, "__metadata__ holds a value that is no text");
        header.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    COHORT_ASSIGN(NamedTensor tensor, parse_tensor(name, entry, data, where));
    header.tensors.push_back(std::move(tensor));
  }
  // by place; an empty tensor comes before the one that starts where it does
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const NamedTensor& a, const NamedTensor& b) {
                     return std::pair(a.bytes.data(), a.bytes.size()) <
                            std::pair(b.bytes.data(), b.bytes.size());
                   });
  COHORT_TRY(check_cover(header.tensors, data, where));
  return header;
}

Expected<void> write_safetensors(const std::filesystem::path& path,
                                 std::span<const NamedTensor> tensors,
                                 const std::map<std::string, std::string>& metadata) {
  for (const NamedTensor& tensor : tensors) {
    const auto bytes = shape_bytes(tensor.shape, element_bytes(tensor.dtype));
    if (!bytes || *bytes != tensor.bytes.size())
      return Error{Errc::invalid_argument,
                   fmt::format("{}: tensor '{}' has {} bytes, dtype and shape say otherwise",
                               path.string(), tensor.name, tensor.bytes.size())};
  }
  COHORT_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::create(path, tensors, metadata));
  for (const NamedTensor& tensor : tensors) COHORT_TRY(writer.append(tensor.bytes));
  return writer.finish();
}

Expected<SafetensorsWriter> SafetensorsWriter::create(
    const std::filesystem::path& path, std::span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata) {
  uint64_t total = 0;
  for (const NamedTensor& tensor : tensors) {
    const auto bytes = shape_bytes(tensor.shape, element_bytes(tensor.dtype));
    if (!bytes || __builtin_add_overflow(total, *bytes, &total))
      return Error{Errc::invalid_argument, fmt::format("{}: tensor '{}' has a shape that overflows",
                                                       path.string(), tensor.name)};
  }
  const std::string header = header_text(tensors, metadata);
  const auto size = static_cast<uint64_t>(header.size());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(path, "open");
  SafetensorsWriter writer(path, fd, total + size + sizeof size);
  COHORT_TRY(writer.append(std::as_bytes(std::span(&size, 1))));
  COHORT_TRY(writer.append(std::as_bytes(std::span(header))));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_left_(other.bytes_left_) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_left_)
    return Error{Errc::invalid_argument, fmt::format("{}: {} bytes, {} are left by the header",
                                                     path_.string(), bytes.size(), bytes_left_)};
  bytes_left_ -= bytes.size();
  return write_all(fd_, bytes, path_);
}

Expected<void> SafetensorsWriter::finish() {
  if (bytes_left_ != 0)
    return Error{Errc::invalid_argument,
                 fmt::format("{}: {} bytes are missing", path_.string(), bytes_left_)};
  const Wait wait({WaitLevel::outside, "the checkpoint", path_.native(), "the disk"});
  if (::fsync(fd_) != 0) return io_error(path_, "fsync");
  return {};
}

Expected<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const std::string where = path.string();
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return Error{errno == ENOENT ? Errc::not_found : Errc::io, where + ": " + std::strerror(errno)};
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0) return io_error(path, "stat");
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (file_bytes < sizeof(uint64_t))
    return corrupt(where, fmt::format("{} bytes are too short for a header", file_bytes));
  void* data = ::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return io_error(path, "map");
  SafetensorsFile result;
  result.mapping_ = std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(data),
      [file_bytes](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), file_bytes); });
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data, sizeof header_bytes);
  if (header_bytes > k_safetensors_header_max || header_bytes > file_bytes - sizeof(uint64_t))
    return corrupt(where, fmt::format("header of {} bytes does not fit a file of {}", header_bytes,
                                      file_bytes));
  const auto* text = reinterpret_cast<const char*>(data) + sizeof(uint64_t);
  const std::span<const std::byte> bytes(result.mapping_.get(), file_bytes);
  COHORT_ASSIGN(SafetensorsHeader header,
                parse_safetensors_header({text, header_bytes},
                                         bytes.subspan(sizeof(uint64_t) + header_bytes), where));
  result.tensors_ = std::move(header.tensors);
  result.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < result.tensors_.size(); ++i) result.index_[result.tensors_[i].name] = i;
  return result;
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

Expected<void> copy_to_f32(const NamedTensor& tensor, std::span<float> to) {
  const uint64_t element = element_bytes(tensor.dtype);
  if ((tensor.dtype != "F32" && tensor.dtype != "BF16") ||
      tensor.bytes.size() != to.size() * element)
    return Error{Errc::invalid_argument,
                 fmt::format("tensor '{}': {} with {} bytes cannot fill {} f32 elements",
                             tensor.name, tensor.dtype, tensor.bytes.size(), to.size())};
  if (tensor.dtype == "F32") {
    std::memcpy(to.data(), tensor.bytes.data(), tensor.bytes.size());
    return {};
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, tensor.bytes.data() + i * sizeof half, sizeof half);
    const uint32_t bits = uint32_t{half} << 16;
    std::memcpy(&to[i], &bits, sizeof bits);
  }
  return {};
}

}  // namespace cohort::compute
