#include <gtest/gtest.h>

#include "runtime/doctor/probes/system_text.hpp"
#include "runtime/doctor/probes/tool_output.hpp"
#include "tests/support/tool_texts.hpp"

namespace cohort::doctor {
namespace {

TEST(NpuSmi, A2TableWithOneDiePerNpu) {
  auto info = parse_npu_smi_info(test::npu_smi_info("910B3", 8, 65536));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->version, "25.3.rc1");
  EXPECT_EQ(info->dies_per_npu, 1u);
  ASSERT_EQ(info->cards.size(), 8u);  // the process behind the table is no card
  EXPECT_EQ(info->cards[5].device_id, 5u);
  EXPECT_EQ(info->cards[5].name, "910B3");
  EXPECT_EQ(info->cards[5].health, "OK");
  EXPECT_EQ(info->cards[5].bus_id, "0000:C5:00.0");
  EXPECT_EQ(info->cards[5].hbm_mib, 65536u);
}

TEST(NpuSmi, A3TableCountsDiesByPhyId) {
  auto info = parse_npu_smi_info(test::npu_smi_info_a3(8));
  ASSERT_TRUE(info);
  ASSERT_EQ(info->cards.size(), 16u);
  EXPECT_EQ(info->dies_per_npu, 2u);
  EXPECT_EQ(info->cards[5].npu_id, 2u);
  EXPECT_EQ(info->cards[5].chip_id, 1u);
  EXPECT_EQ(info->cards[5].device_id, 5u);
}

TEST(NpuSmi, SubsetOfAnA3HostKeepsItsPhyIds) {  // a container with NPU 2 only
  auto info = parse_npu_smi_info(
      "| NPU   Name                | Health        | Power(W)    Temp(C)      |\r\n"
      "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM |\r\n"
      "| 2     Ascend910           | Alarm         | 176.3       36       0    / 0 |\r\n"
      "| 0     4                   | 0000:95:00.0  | 0    0    / 0    3411 / 65536 |\r\n");
  ASSERT_TRUE(info);
  ASSERT_EQ(info->cards.size(), 1u);
  EXPECT_EQ(info->cards[0].device_id, 4u);
  EXPECT_EQ(info->cards[0].health, "Alarm");
}

TEST(NpuSmi, EmptyTableIsNoErrorGarbageIs) {
  auto none = parse_npu_smi_info(test::npu_smi_info("910B3", 0, 0));
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->cards.empty());
  auto garbage = parse_npu_smi_info("dcmi module initialize failed. ret is -8005\n");
  ASSERT_FALSE(garbage);
  EXPECT_EQ(garbage.error().detail,
            "no table of NPUs (npu-smi info) in \"dcmi module initialize failed. ret is -8005\"");
  EXPECT_EQ(parse_npu_smi_info("").error().detail,
            "no table of NPUs (npu-smi info) in an empty answer");
}

TEST(NpuSmi, BoardVersions) {
  auto board = parse_npu_board(test::npu_smi_board());
  ASSERT_TRUE(board);
  EXPECT_EQ(board->software, "25.3.rc1");
  EXPECT_EQ(board->firmware, "7.8.0.2.212");
  EXPECT_EQ(board->compatibility, "OK");
  EXPECT_FALSE(parse_npu_board("Error: Command not supported\n"));
}

TEST(HccnTool, AddressOnTwoLinesOrOne) {  // the guide prints both on one line
  for (const char* text :
       {"ipaddr:10.20.0.2\nnetmask:255.255.255.0\n", "ipaddr:10.20.0.2 netmask:255.255.255.0\n",
        "\r\n  ipaddr: 10.20.0.2\r\n  netmask: 255.255.255.0\r\n"}) {
    auto x = parse_hccn_ip(text);
    ASSERT_TRUE(x) << text;
    EXPECT_EQ(x->address, "10.20.0.2") << text;
    EXPECT_EQ(x->netmask, "255.255.255.0") << text;
  }
  EXPECT_EQ(parse_hccn_ip("ipaddr:\nnetmask:\n")->address, "");
  EXPECT_FALSE(parse_hccn_ip("Cmd executed failed!\n"));
}

TEST(HccnTool, Link) {
  EXPECT_TRUE(*parse_hccn_link("link status: UP\n"));
  EXPECT_FALSE(*parse_hccn_link("link status: DOWN\n"));
  EXPECT_FALSE(parse_hccn_link("link status: \n"));
  EXPECT_FALSE(parse_hccn_link("hccn_tool is busy, please try again\n"));
}

TEST(HccnTool, NetHealthCodesOfTheGuide) {
  const char* const names[] = {"Success",     "Socket fail",   "Receive timeout",
                               "Unreachable", "Time exceeded", "Fault",
                               "Init",        "Thread error",  "Detect ip set"};
  for (int code = 0; code < 9; ++code)
    EXPECT_EQ(*parse_hccn_net_health(fmt::format("net health status: {}\n", names[code])), code);
  EXPECT_EQ(*parse_hccn_net_health("net health status: 3\n"), 3);
  EXPECT_EQ(*parse_hccn_net_health("net health status: Burning\n"), 9);
  EXPECT_FALSE(parse_hccn_net_health("net health status:\n"));
}

TEST(HccnTool, NetdetectTlsLldpPing) {
  EXPECT_EQ(*parse_hccn_netdetect("netdetect address: 11.12.165.1\n"), "11.12.165.1");
  EXPECT_EQ(*parse_hccn_netdetect("netdetect address: 0.0.0.0\n"), "");
  EXPECT_FALSE(parse_hccn_netdetect("?"));
  EXPECT_FALSE(*parse_hccn_tls(test::hccn_tls(3, 0)));
  EXPECT_TRUE(*parse_hccn_tls(test::hccn_tls(3, 1)));
  EXPECT_FALSE(parse_hccn_tls("dev_id:0, tls switch[7](0:disable)\n"));
  EXPECT_TRUE(
      *parse_hccn_lldp("Chassis ID TLV\n\tMAC: 0c:31\nPort ID TLV\n\tIfname: 400GE1/1/5\n"));
  EXPECT_FALSE(*parse_hccn_lldp("\n"));
  EXPECT_FALSE(parse_hccn_lldp("Cmd executed failed!"));
  EXPECT_EQ(*parse_hccn_ping(test::hccn_ping("10.0.0.2", 3)), 0.0);
  EXPECT_NEAR(*parse_hccn_ping(test::hccn_ping("10.0.0.2", 2)), 33.33, 0.01);
  EXPECT_EQ(*parse_hccn_ping(test::hccn_ping("10.0.0.2", 0)), 100.0);
  EXPECT_FALSE(parse_hccn_ping("0 packets transmitted, 0 received\n"));
}

TEST(OtherTools, NvidiaSmiAndFirewalls) {
  auto gpus = parse_nvidia_smi("0, NVIDIA H200, 143771, 550.90.07\n1, NVIDIA H200, 143771, 550\n");
  ASSERT_TRUE(gpus);
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].name, "NVIDIA H200");
  EXPECT_EQ((*gpus)[0].memory_mib, 143771u);
  EXPECT_FALSE(parse_nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate\n"));
  EXPECT_TRUE(*parse_firewall("Status: active\n\nTo Action\n"));
  EXPECT_FALSE(*parse_firewall("Status: inactive\n"));
  EXPECT_TRUE(*parse_firewall("running\n"));
  EXPECT_FALSE(*parse_firewall("not running\n"));
  EXPECT_FALSE(parse_firewall("ERROR: You need to be root to run this script\n"));
}

TEST(SystemText, PortsAndNumbers) {
  EXPECT_EQ(parse_number(" 4096\n"), 4096u);
  EXPECT_FALSE(parse_number("4096x"));
  EXPECT_FALSE(parse_number("max"));
  EXPECT_FALSE(parse_number("99999999999999999999"));
  auto ranges = parse_port_ranges("60000-60015,8080\n");
  ASSERT_TRUE(ranges);
  EXPECT_EQ(*ranges, (std::vector<doctor::PortRange>{{60000, 60015}, {8080, 8080}}));
  EXPECT_TRUE(parse_port_ranges("\n")->empty());
  for (const char* bad : {"60015-60000", "70000", "a", "1-", ",1"})
    EXPECT_FALSE(parse_port_ranges(bad)) << bad;
  EXPECT_EQ(parse_port_range("32768\t60999\n"), (doctor::PortRange{32768, 60999}));
  EXPECT_FALSE(parse_port_range("32768"));
}

TEST(SystemText, ProcNetTcpKeepsBoundPortsWithoutTimeWait) {
  EXPECT_EQ(parse_proc_net_tcp(
                "  sl  local_address rem_address   st tx_queue\n"
                "   0: 0100007F:EA60 00000000:0000 0A 00000000:00000000 00\n"     // 60000 listens
                "   1: 00000000000000000000000001000000:EA61 0000:0000 01 0:0\n"  // 60001, IPv6
                "   2: 0100007F:EA62 0100007F:0016 06 00000000:00000000 03\n"     // TIME_WAIT
                "   3: 0100007F:EA60 0100007F:0017 01 00000000:00000000 00\n"     // 60000 again
                "garbage\n   4: nonsense\n"),
            (std::vector<uint16_t>{60000, 60001}));
}

TEST(SystemText, MemoryVersionsAndBlas) {
  EXPECT_EQ(parse_mem_available("MemTotal: 9 kB\nMemAvailable:    1024 kB\n"), 1048576u);
  EXPECT_FALSE(parse_mem_available("MemTotal: 9 kB\n"));
  EXPECT_EQ(parse_version_info("package_name=Ascend-cann-toolkit\nversion=8.3.RC1\n", "version"),
            "8.3.RC1");
  EXPECT_EQ(parse_version_info("Version=25.3.rc1\nascendhal_version=7.35.23\n", "version"),
            "25.3.rc1");
  EXPECT_FALSE(parse_version_info("innerversion=1\n", "version"));
  EXPECT_EQ(
      parse_loaded_blas(
          "7f00-7f01 r-xp 00000000 00:1 5 /usr/lib/x86_64-linux-gnu/libm.so.6\n"
          "7f00-7f01 r-xp 0 00:1 6 /usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3\n"),
      "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3");
  EXPECT_EQ(parse_loaded_blas("7f00-7f01 rw-p 0 00:0 0 [heap]\n"), "");
}

}  // namespace
}  // namespace cohort::doctor
