#include "runtime/doctor/probes/system_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "runtime/doctor/probes/tool_output.hpp"

namespace cohort::doctor {
namespace {

constexpr uint64_t k_max_port = 65535;
constexpr size_t k_max_ranges = 4096;

std::optional<uint64_t> hex_number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && text.size() <= 8 ? std::optional(value) : std::nullopt;
}

std::optional<uint16_t> port_of(std::string_view text) {
  auto value = parse_number(text);
  return value && *value <= k_max_port ? std::optional(static_cast<uint16_t>(*value))
                                       : std::nullopt;
}

}  // namespace
bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  size_t end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return true;
}

std::string_view next_word(std::string_view& text) {
  text = trim(text);
  auto word = text.substr(0, text.find_first_of(" \t\r\n"));
  text.remove_prefix(word.size());
  return word;
}

bool starts_with_no_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) { return to_lower(a) == to_lower(b); });
}

std::optional<std::string_view> field_of(std::string_view text, std::string_view field) {
  for (std::string_view line; next_line(text, line);) {
    auto found = std::search(line.begin(), line.end(), field.begin(), field.end(),
                             [](char a, char b) { return to_lower(a) == to_lower(b); });
    if (found == line.end()) continue;
    return trim(line.substr(static_cast<size_t>(found - line.begin()) + field.size()));
  }
  return std::nullopt;
}

std::optional<uint64_t> leading_number(std::string_view text, uint64_t limit) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value <= limit ? std::optional(value) : std::nullopt;
}

std::string printable(std::string_view text, size_t size) {
  std::string out(text.substr(0, size));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  text = trim(text);
  bool is_number =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? leading_number(text) : std::nullopt;
}

Expected<std::vector<PortRange>> parse_port_ranges(std::string_view text) {
  std::vector<PortRange> ranges;
  text = trim(text);
  while (!text.empty() && ranges.size() < k_max_ranges) {
    size_t comma = text.find(',');
    std::string_view part = trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    size_t dash = part.find('-');
    auto first = port_of(part.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : port_of(part.substr(dash + 1));
    if (!first || !last || *last < *first)
      return Error{Errc::corrupt,
                   fmt::format("\"{}\" is no port or range of ports", printable(part, 40))};
    ranges.push_back({*first, *last});
  }
  return ranges;
}

std::optional<PortRange> parse_port_range(std::string_view text) {
  auto first = port_of(next_word(text));
  auto last = port_of(next_word(text));
  if (!first || !last || *last < *first) return std::nullopt;
  return PortRange{*first, *last};
}

std::vector<uint16_t> parse_proc_net_tcp(std::string_view text) {
  constexpr uint64_t k_time_wait = 6;
  std::set<uint16_t> ports;
  for (std::string_view line; next_line(text, line);) {
    // "  0: 0100007F:EA60 00000000:0000 0A …": slot, local, remote, state
    next_word(line);
    std::string_view local = next_word(line);
    next_word(line);
    auto state = hex_number(next_word(line));
    size_t colon = local.rfind(':');
    if (colon == std::string_view::npos || !state || *state == k_time_wait) continue;
    auto port = hex_number(local.substr(colon + 1));
    if (port && *port > 0 && *port <= k_max_port) ports.insert(static_cast<uint16_t>(*port));
  }
  return {ports.begin(), ports.end()};
}

std::optional<uint64_t> parse_mem_available(std::string_view text) {
  constexpr uint64_t k_max_kib = uint64_t{1} << 50;
  auto value = field_of(text, "MemAvailable:");
  auto kib = value ? leading_number(*value, k_max_kib) : std::nullopt;
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<std::string> parse_version_info(std::string_view text, std::string_view key) {
  for (std::string_view line; next_line(text, line);) {
    size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view name = trim(line.substr(0, equals));
    if (name.size() == key.size() && starts_with_no_case(name, key))
      return printable(trim(line.substr(equals + 1)), k_max_text);
  }
  return std::nullopt;
}

std::string parse_loaded_blas(std::string_view text) {
  for (std::string_view line; next_line(text, line);) {
    size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    std::string_view path = line.substr(slash);
    std::string_view file = path.substr(path.rfind('/') + 1);
    for (std::string_view name : {"libopenblas", "libmkl_rt", "libmkl_core", "libblis", "libblas"})
      if (file.starts_with(name)) return printable(path, k_max_text);
  }
  return "";
}

}  // namespace cohort::doctor
