#pragma once
/// What npu-smi and hccn_tool print, in their own layout: healthy 910A, A2 and A3 hosts. Written
/// from the seed documents and from public outputs of versions 23 to 25.
#include <fmt/format.h>

#include <string>

namespace cohort::test {

/// `npu-smi info` of `npus` NPUs with one die each (910A, 910B3).
inline std::string npu_smi_info(const std::string& name, uint32_t npus, uint64_t hbm_mib) {
  const std::string line(96, '-');
  const std::string rule =
      "+===========================+===============+=============================================="
      "======+\n";
  std::string out = "+" + line + "+\n";
  out += fmt::format("| npu-smi 25.3.rc1                 Version: 25.3.rc1{:45}|\n", "");
  out +=
      "+---------------------------+---------------+----------------------------------------------"
      "------+\n"
      "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage("
      "page)|\n"
      "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)   "
      "     |\n" +
      rule;
  for (uint32_t i = 0; i < npus; ++i)
    out +=
        fmt::format(
            "| {:<5} {:<19} | OK            | 96.7        32                0    / 0             "
            "|\n"
            "| 0                         | 0000:C{}:00.0  | 0           0    / 0          3392 / "
            "{:<13} |\n",
            i, name, i, hbm_mib) +
        rule;
  out +=
      "| NPU     Chip              | Process id    | Process name             | Process memory(MB) "
      "     |\n" +
      rule +
      "| 0       0                 | 43551         | python3                  | 57123              "
      "     |\n" +
      rule;
  return out;
}

/// `npu-smi info` of an A3 server: NPUs of two dies, numbered through as Phy-ID.
inline std::string npu_smi_info_a3(uint32_t npus) {
  std::string out =
      "| npu-smi 25.5.0                   Version: 25.5.0                                          "
      "     |\n"
      "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage("
      "page)|\n"
      "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)   "
      "     |\n";
  for (uint32_t i = 0; i < 2 * npus; ++i)
    out += fmt::format(
        "| {:<5} Ascend910           | OK            | {}       36                0    / 0         "
        "   "
        " |\n"
        "| {:<5} {:<19} | 0000:9{:x}:00.0  | 0           0    / 0          3102 / 65536         "
        "|\n",
        i / 2, i % 2 == 0 ? "161.8" : "-    ", i % 2, i, i % 16);
  return out;
}

inline std::string npu_smi_board() {
  return "        NPU ID                         : 0\n"
         "        Software Version               : 25.3.rc1\n"
         "        Firmware Version               : 7.8.0.2.212\n"
         "        Compatibility                  : OK\n"
         "        Board ID                       : 0x02\n";
}

inline std::string hccn_tls(uint32_t id, int value) {
  return fmt::format(
      "dev_id:{}, tls switch[{}](0:disable, 1:enable), tls preconfigured[1](0:non-preset, "
      "1:preset), tls alarm time threshold[60]days\n"
      "dev_id:{}, [pub cert] info:\n         start_time[Wed Feb 19 03:19:21 2020 GMT]\n",
      id, value, id);
}

inline std::string hccn_ping(const std::string& address, int received) {
  return fmt::format(
      "device 0 PING {}\nrecv seq=0,time=0.114000ms\nrecv time out seq=1\n"
      "3 packets transmitted, {} received, {:.2f}% packet loss\n",
      address, received, 100.0 * (3 - received) / 3);
}

}  // namespace cohort::test
