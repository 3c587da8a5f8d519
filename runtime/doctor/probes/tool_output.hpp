#pragma once
/// Readers of what npu-smi, hccn_tool, nvidia-smi and the firewall tools print. Pure functions of
/// text: no process, no file. Text comes from other programs and is not trusted: every reader
/// takes any bytes, never throws, and bounds what it keeps (k_max_cards cards, k_max_text of a
/// field). Errors are Errc::corrupt and quote the first line read. Tolerated everywhere: CR LF,
/// leading blanks, lines before and after, letter case of the field names, Chinese or English
/// notes around them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::doctor {

constexpr size_t k_max_cards = 1024;
constexpr size_t k_max_text = 256;  // [bytes] of one field

/// One die in the table of `npu-smi info`.
struct NpuSmiCard {
  uint32_t npu_id = 0;     // what npu-smi -i takes
  uint32_t chip_id = 0;    // die of that NPU
  uint32_t device_id = 0;  // logical id over the host: Phy-ID where shown, else npu_id
  std::string name, health, bus_id;
  uint64_t hbm_mib = 0;  // 0: not shown
};
struct NpuSmiInfo {
  std::string version;
  std::vector<NpuSmiCard> cards;
  uint32_t dies_per_npu = 1;
};
/// Reads `npu-smi info`. An empty table is no error; a text without the table is.
Expected<NpuSmiInfo> parse_npu_smi_info(std::string_view text);

struct NpuBoard {
  std::string software, firmware, compatibility;  // driver and firmware versions
};
/// Reads `npu-smi info -t board -i K`.
Expected<NpuBoard> parse_npu_board(std::string_view text);

struct DeviceAddress {
  std::string address, netmask;  // empty: none is set
};
/// Reads `hccn_tool -i K -ip -g`.
Expected<DeviceAddress> parse_hccn_ip(std::string_view text);
/// Reads `hccn_tool -i K -link -g`: true when the port is UP.
Expected<bool> parse_hccn_link(std::string_view text);
/// Reads `hccn_tool -i K -net_health -g`: code 0 … 8, 9 for a text the guide does not list.
Expected<int> parse_hccn_net_health(std::string_view text);
/// Reads `hccn_tool -i K -netdetect -g`: the address, empty when none is set.
Expected<std::string> parse_hccn_netdetect(std::string_view text);
/// Reads `hccn_tool -i K -tls -g`: true when the switch is on.
Expected<bool> parse_hccn_tls(std::string_view text);
/// Reads `hccn_tool -i K -lldp -g`: true when a neighbour is described ("not empty is right").
Expected<bool> parse_hccn_lldp(std::string_view text);
/// Reads `hccn_tool -i K -ping -g address A`: lost packets in percent.
Expected<double> parse_hccn_ping(std::string_view text);

struct GpuCard {
  uint32_t index = 0;
  std::string name, driver;
  uint64_t memory_mib = 0;
};
/// Reads `nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader,
/// nounits`.
Expected<std::vector<GpuCard>> parse_nvidia_smi(std::string_view text);

/// Reads `ufw status` ("Status: active") and `firewall-cmd --state` ("running"): true when on.
Expected<bool> parse_firewall(std::string_view text);

}  // namespace cohort::doctor
