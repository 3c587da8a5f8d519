#include "runtime/doctor/probes/tool_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "runtime/doctor/probes/system_text.hpp"

namespace cohort::doctor {
namespace {

/// Says what was looked for and quotes the first line that holds anything.
Error unreadable(const char* what, std::string_view text) {
  constexpr size_t k_quote = 100;
  std::string_view line;
  std::string_view rest = text;
  while (next_line(rest, line) && trim(line).empty()) {
  }
  line = trim(line);
  return Error{Errc::corrupt, line.empty()
                                  ? fmt::format("no {} in an empty answer", what)
                                  : fmt::format("no {} in \"{}\"", what, printable(line, k_quote))};
}

/// Returns the cells of a table row "| a | b | c |", trimmed; empty unless the line is one.
std::vector<std::string_view> cells_of(std::string_view line) {
  constexpr size_t k_max_cells = 16;
  std::vector<std::string_view> cells;
  line = trim(line);
  if (line.size() < 2 || line.front() != '|') return cells;
  line.remove_prefix(1);
  while (cells.size() < k_max_cells) {
    size_t bar = line.find('|');
    if (bar == std::string_view::npos) break;
    cells.push_back(trim(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  return cells;
}

constexpr uint64_t k_max_id = 65535;

/// "| 0     910B3     | OK            | 96.7        32                0    / 0             |"
std::optional<NpuSmiCard> read_first_row(const std::vector<std::string_view>& cells) {
  std::string_view left = cells[0];
  auto id = leading_number(next_word(left), k_max_id);
  std::string_view name = trim(left);
  bool is_name = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A'; });
  if (!id || !is_name || cells[1].empty()) return std::nullopt;
  NpuSmiCard card;
  card.npu_id = static_cast<uint32_t>(*id);
  card.device_id = card.npu_id;
  card.name = printable(name, k_max_text);
  card.health = printable(cells[1], k_max_text);
  return card;
}

/// "| 0     3      | 0000:C1:00.0  | 0           0    / 0          60056/ 65536         |"
bool read_second_row(const std::vector<std::string_view>& cells, NpuSmiCard& card, bool is_phy) {
  std::string_view left = cells[0];
  auto chip = leading_number(next_word(left), k_max_id);
  if (!chip) return false;
  card.chip_id = static_cast<uint32_t>(*chip);
  if (auto device = leading_number(next_word(left), k_max_id); is_phy && device)
    card.device_id = static_cast<uint32_t>(*device);
  card.bus_id = printable(cells[1], k_max_text);
  // The last "used / total" of the row is the HBM.
  std::string_view usage = cells[2];
  size_t slash = usage.rfind('/');
  if (slash != std::string_view::npos)
    card.hbm_mib = leading_number(trim(usage.substr(slash + 1)), uint64_t{1} << 32).value_or(0);
  return true;
}

}  // namespace

Expected<NpuSmiInfo> parse_npu_smi_info(std::string_view text) {
  NpuSmiInfo info;
  bool is_table = false, is_phy = false;
  std::optional<NpuSmiCard> open;
  std::set<std::pair<uint32_t, uint32_t>> dies;
  std::string_view rest = text;
  for (std::string_view line; next_line(rest, line);) {
    auto cells = cells_of(line);
    if (cells.empty()) continue;
    if (starts_with_no_case(cells[0], "npu-smi")) {
      std::string_view words = cells[0];
      next_word(words);
      info.version = printable(next_word(words), k_max_text);
      continue;
    }
    if (cells.size() < 3) continue;
    // The table of processes follows; its ids are no cards.
    if (starts_with_no_case(cells[1], "process id")) break;
    if (starts_with_no_case(cells[0], "npu")) is_table = true;
    if (starts_with_no_case(cells[0], "chip")) {
      is_phy = field_of(cells[0], "phy-id").has_value();
      continue;
    }
    if (!is_table) continue;
    if (!open) {
      open = read_first_row(cells);
      continue;
    }
    if (!read_second_row(cells, *open, is_phy)) {
      open = read_first_row(cells);
      continue;
    }
    if (info.cards.size() < k_max_cards && dies.emplace(open->npu_id, open->chip_id).second) {
      info.dies_per_npu = std::max(info.dies_per_npu, open->chip_id + 1);
      info.cards.push_back(std::move(*open));
    }
    open.reset();
  }
  if (!is_table) return unreadable("table of NPUs (npu-smi info)", text);
  return info;
}

Expected<NpuBoard> parse_npu_board(std::string_view text) {
  auto value = [&](std::string_view field) {
    auto found = field_of(text, field);
    if (!found) return std::string();
    size_t colon = found->find(':');
    return colon == std::string_view::npos ? std::string()
                                           : printable(trim(found->substr(colon + 1)), k_max_text);
  };
  NpuBoard board{value("software version"), value("firmware version"), value("compatibility")};
  if (board.software.empty() && board.firmware.empty())
    return unreadable("Software Version (npu-smi info -t board)", text);
  return board;
}

Expected<DeviceAddress> parse_hccn_ip(std::string_view text) {
  DeviceAddress out;
  auto take = [&](std::string_view field) {
    auto found = field_of(text, field);
    return found ? printable(next_word(*found), k_max_text) : std::string();
  };
  out.address = take("ipaddr:");
  out.netmask = take("netmask:");
  // hccn_tool says "no ip address" or "Cmd executed failed" in words when none is set.
  bool is_unset = field_of(text, "not set") || field_of(text, "no ip") ||
                  field_of(text, "ipaddr:") || field_of(text, "not config");
  if (out.address.empty() && !is_unset) return unreadable("ipaddr (hccn_tool -ip)", text);
  return out;
}

Expected<bool> parse_hccn_link(std::string_view text) {
  auto value = field_of(text, "link status:");
  if (value && starts_with_no_case(*value, "up")) return true;
  if (value && starts_with_no_case(*value, "down")) return false;
  return unreadable("link status (hccn_tool -link)", text);
}

Expected<int> parse_hccn_net_health(std::string_view text) {
  constexpr std::array<std::string_view, 9> k_texts{
      "success", "socket fail", "receive timeout", "unreachable",  "time exceeded",
      "fault",   "init",        "thread error",    "detect ip set"};
  auto value = field_of(text, "net health status:");
  if (!value || value->empty()) return unreadable("net health status (hccn_tool)", text);
  for (size_t code = 0; code < k_texts.size(); ++code)
    if (starts_with_no_case(*value, k_texts[code])) return static_cast<int>(code);
  // Some versions print the number.
  if (auto code = leading_number(*value); code && *code < k_texts.size())
    return static_cast<int>(*code);
  return static_cast<int>(k_texts.size());
}

Expected<std::string> parse_hccn_netdetect(std::string_view text) {
  auto value = field_of(text, "netdetect address:");
  if (value) {
    std::string address = printable(next_word(*value), k_max_text);
    return address == "0.0.0.0" ? std::string() : address;
  }
  if (field_of(text, "not set") || field_of(text, "not config")) return std::string();
  return unreadable("netdetect address (hccn_tool)", text);
}

Expected<bool> parse_hccn_tls(std::string_view text) {
  auto value = field_of(text, "tls switch[");
  if (value && starts_with_no_case(*value, "0]")) return false;
  if (value && starts_with_no_case(*value, "1]")) return true;
  return unreadable("tls switch (hccn_tool -tls)", text);
}

Expected<bool> parse_hccn_lldp(std::string_view text) {
  // A right answer lists TLVs; the port's name and the chassis come in every version seen.
  for (std::string_view field : {"ifname:", "chassis id", "port id", "system name"})
    if (field_of(text, field)) return true;
  if (trim(text).empty()) return false;
  if (field_of(text, "no lldp") || field_of(text, "no neighbor") || field_of(text, "not found"))
    return false;
  return unreadable("neighbour (hccn_tool -lldp)", text);
}

Expected<double> parse_hccn_ping(std::string_view text) {
  auto behind = field_of(text, "packets transmitted,");
  auto received = behind ? leading_number(*behind, k_max_id) : std::nullopt;
  auto before =
      behind ? std::string_view(text.data(), static_cast<size_t>(behind->data() - text.data()))
             : std::string_view();
  size_t line = before.rfind('\n');
  std::string_view head = trim(line == std::string_view::npos ? before : before.substr(line + 1));
  auto sent = leading_number(head, k_max_id);
  if (!received || !sent || *sent == 0) return unreadable("packet loss (hccn_tool -ping)", text);
  double share = static_cast<double>(std::min(*received, *sent)) / static_cast<double>(*sent);
  return 100 * (1 - share);
}

Expected<std::vector<GpuCard>> parse_nvidia_smi(std::string_view text) {
  std::vector<GpuCard> cards;
  std::string_view rest = text;
  for (std::string_view line; next_line(rest, line) && cards.size() < k_max_cards;) {
    std::array<std::string_view, 4> cells{};
    size_t count = 0;
    for (line = trim(line); count < cells.size(); ++count) {
      size_t comma = line.find(',');
      cells[count] = trim(line.substr(0, comma));
      line = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
      if (cells[count].empty()) break;
    }
    auto index = leading_number(cells[0], k_max_id);
    auto memory = leading_number(cells[2], uint64_t{1} << 32);
    if (count < cells.size() || !index || !memory) continue;
    cards.push_back({static_cast<uint32_t>(*index), printable(cells[1], k_max_text),
                     printable(cells[3], k_max_text), *memory});
  }
  if (cards.empty() && !trim(text).empty())
    return unreadable("index, name, memory, driver (nvidia-smi)", text);
  return cards;
}

Expected<bool> parse_firewall(std::string_view text) {
  auto ufw = field_of(text, "status:");
  std::string_view word = trim(ufw ? *ufw : text);
  for (std::string_view on : {"active", "running"})
    if (starts_with_no_case(word, on)) return true;
  for (std::string_view off : {"inactive", "not running"})
    if (starts_with_no_case(word, off)) return false;
  return unreadable("status (ufw, firewall-cmd)", text);
}

}  // namespace cohort::doctor
