/// Probing a host made of files and stand-in tools.
#include <gtest/gtest.h>
#include <signal.h>

#include "runtime/platform/process.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/stand_in_host.hpp"

namespace cohort::doctor {
using platform::CommandOptions;
using platform::run_command_line;
namespace {

using doctor::PlatformKind;
using doctor::Series;
using std::chrono::milliseconds;
using test::StandInHost;
using test::wait_until;

TEST(RunCommandLine, GivesOutputExitCodeAndBothStreams) {
  auto done = run_command_line({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 3);
  EXPECT_EQ(done->output, "out\nerr\n");
  EXPECT_EQ(run_command_line({"/bin/sh", "-c", "kill -9 $$"}, {})->exit_code, 128 + 9);
  EXPECT_EQ(run_command_line({"/nowhere/tool"}, {}).error().code, Errc::not_found);
  EXPECT_EQ(run_command_line({}, {}).error().code, Errc::invalid_argument);
}

TEST(RunCommandLine, KillsTheWholeGroupAtTheLimit) {
  StandInHost host("h");
  std::string pid_file = (host.root() / "pid").string();
  // The tool's own child would keep the pipe open and go on.
  auto done = run_command_line(
      {"/bin/sh", "-c", "/bin/sleep 600 & echo $! > " + pid_file + "; echo begun; wait"},
      {.time_limit = milliseconds(2000)});  // the shell has begun by then
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::timeout);
  pid_t child = 0;
  ASSERT_TRUE(std::ifstream(pid_file) >> child);
  // Killed; gone as soon as init has reaped it, a zombie until then.
  EXPECT_TRUE(wait_until(
      [&] {
        std::string state, pid_word, name;
        std::ifstream stat(fmt::format("/proc/{}/stat", child));
        return !(stat >> pid_word >> name >> state) || state == "Z" || state == "X";
      },
      10000));
}

TEST(RunCommandLine, AChildThatClosesItsOutputAndStaysIsKilledToo) {
  auto done = run_command_line({"/bin/sh", "-c", "exec >&- 2>&-; exec /bin/sleep 600"},
                               {.time_limit = milliseconds(200)});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::timeout);
}

TEST(RunCommandLine, OutputIsBounded) {
  auto done = run_command_line({"/bin/sh", "-c",
                                "i=0; while [ $i -lt 2000 ]; do echo 0123456789; "
                                "i=$((i+1)); done"},
                               {.max_output_bytes = 1000});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->output.size(), 1000u);
  EXPECT_TRUE(done->is_cut);
}

TEST(Probe, MachineWithoutCards) {
  StandInHost host("plain");
  HostReport report = probe_host(host.options());
  EXPECT_EQ(report.machine.platform, PlatformKind::cpu);
  EXPECT_EQ(report.host.name, "plain");
  EXPECT_EQ(report.host.somaxconn, 65535u);
  EXPECT_EQ(report.host.listen_ports, (std::vector<uint16_t>{22}));
  EXPECT_EQ(report.host.interfaces, (std::vector<std::string>{"eth0"}));
  EXPECT_EQ(report.machine.memory_bytes, uint64_t{263882576} * 1024);
  EXPECT_TRUE(report.machine.shm_bytes);
  EXPECT_TRUE(report.machine.disk_bytes);
  EXPECT_TRUE(report.host.cards.empty());
  EXPECT_TRUE(report.machine.faults.empty());
}

TEST(Probe, HealthyA2Host) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  HostReport report = probe_host(host.options());
  EXPECT_EQ(report.machine.platform, PlatformKind::npu);
  EXPECT_EQ(report.series, Series::a2);
  EXPECT_EQ(report.machine.evidence, "8 x 910B3, series A2, driver 25.3.rc1");
  EXPECT_EQ(report.machine.device_files, 8u);
  EXPECT_TRUE(report.machine.faults.empty());
  EXPECT_EQ(report.host.versions, (doctor::Versions{"8.3.RC1", "25.3.rc1", "7.8.0.2.212"}));
  EXPECT_EQ(report.host.is_firewall_on, false);
  ASSERT_EQ(report.host.cards.size(), 8u);
  const doctor::Card& card = report.host.cards[6];
  EXPECT_EQ(card.ip, "10.20.1.16");
  EXPECT_EQ(card.netmask, "255.255.0.0");
  EXPECT_EQ(card.is_link_up, true);
  EXPECT_EQ(card.net_health, 0);
  EXPECT_EQ(card.is_tls_on, false);
  EXPECT_EQ(card.has_lldp_neighbour, true);
  EXPECT_EQ(card.netdetect, "10.20.0.1");
  EXPECT_TRUE(card.faults.empty());
}

TEST(Probe, HealthyA3And910AHosts) {
  StandInHost a3("a3");
  a3.add_npus(test::npu_smi_info_a3(8), 16, 0);
  HostReport report = probe_host(a3.options());
  EXPECT_EQ(report.series, Series::a3);
  EXPECT_EQ(report.host.cards.size(), 16u);
  EXPECT_EQ(report.host.cards[15].ip, "10.20.1.25");
  StandInHost t("t");
  t.add_npus(test::npu_smi_info("910A", 8, 32768), 8, 0, true);
  report = probe_host(t.options());
  EXPECT_EQ(report.series, Series::training);
  EXPECT_EQ(report.host.cards[5].ip, "10.1.0.3");
}

TEST(Probe, PingGoesOutFromEveryCard) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 2, 65536), 2, 0);
  for (uint32_t id = 0; id < 2; ++id)
    host.hccn(id, "-ping -g address 10.20.2.10", test::hccn_ping("10.20.2.10", id == 0 ? 3 : 2));
  ProbeOptions options = host.options();
  options.ping_addresses = {"10.20.2.10"};
  HostReport report = probe_host(options);
  ASSERT_EQ(report.host.cards[1].pings.size(), 1u);
  EXPECT_EQ(report.host.cards[0].pings[0].loss_percent, 0);
  EXPECT_NEAR(report.host.cards[1].pings[0].loss_percent, 33.33, 0.01);
}

TEST(Probe, MissingHccnToolIsOneFault) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  std::filesystem::remove(host.root() / "bin/hccn_tool");
  HostReport report = probe_host(host.options());
  ASSERT_EQ(report.machine.faults.size(), 1u);
  EXPECT_EQ(report.machine.faults[0].substr(0, 26), "hccn_tool is neither on PA");
  EXPECT_FALSE(report.host.cards[0].is_tls_on);
}

TEST(Probe, ToolsOfTheDriverFolderAreFoundWithoutPath) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 2, 65536), 2, 0);
  std::filesystem::path tools = host.root() / "usr/local/Ascend/driver/tools";
  std::filesystem::create_directories(tools);
  std::filesystem::rename(host.root() / "bin/hccn_tool", tools / "hccn_tool");
  EXPECT_TRUE(probe_host(host.options()).host.cards[1].is_ip_read);
}

TEST(Probe, HangingToolIsKilledAndNotAskedAgain) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  host.script("hccn_tool", "exec /bin/sleep 600\n");
  ProbeOptions options = host.options();
  options.time_limit = milliseconds(200);
  auto begin = std::chrono::steady_clock::now();
  HostReport report = probe_host(options);
  // 8 cards x 6 questions would take 9.6 s one by one and 1.2 s eight at a time.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(8000));
  ASSERT_EQ(report.machine.faults.size(), 1u);
  const std::string& fault = report.machine.faults[0];
  EXPECT_TRUE(fault.starts_with("hccn_tool -i ")) << fault;
  EXPECT_TRUE(fault.ends_with(": no answer in 0.2 s, killed; hccn_tool was not asked again"))
      << fault;
  for (const auto& card : report.host.cards) EXPECT_TRUE(card.faults.empty());
}

TEST(Probe, GarbageIsQuotedPerCard) {
  StandInHost host("a2");
  host.add_npus(test::npu_smi_info("910B3", 2, 65536), 2, 0);
  host.hccn(1, "-tls -g", "\x01\x02segmentation fault\n");
  HostReport report = probe_host(host.options());
  ASSERT_EQ(report.host.cards[1].faults.size(), 1u);
  EXPECT_EQ(report.host.cards[1].faults[0],
            "hccn_tool -i 1 -tls -g: no tls switch (hccn_tool -tls) in \"??segmentation fault\"");
  EXPECT_TRUE(report.host.cards[0].faults.empty());
}

TEST(Probe, DeviceFilesWithoutNpuSmi) {
  StandInHost host("bare");
  for (int id = 0; id < 4; ++id) host.write(fmt::format("dev/davinci{}", id), "");
  HostReport report = probe_host(host.options());
  EXPECT_EQ(report.machine.platform, PlatformKind::npu);
  EXPECT_EQ(report.host.cards.size(), 4u);
  EXPECT_EQ(report.series, Series::unknown);
  EXPECT_EQ(report.machine.faults.size(), 2u);  // npu-smi, hccn_tool
}

TEST(Probe, NvidiaHost) {
  StandInHost host("gpu");
  host.write("dev/nvidia0", "");
  host.script("nvidia-smi", "echo '0, NVIDIA H200, 143771, 550.90.07'\n");
  HostReport report = probe_host(host.options());
  EXPECT_EQ(report.machine.platform, PlatformKind::cuda);
  EXPECT_EQ(report.gpus, (std::vector<std::string>{"0 NVIDIA H200 143771 MiB"}));
}

TEST(Probe, InstalledNpuSmiWithoutACardIsACpuHost) {
  StandInHost host("image");
  host.script("npu-smi", "echo 'dcmi module initialize failed. ret is -8005'; exit 1\n");
  HostReport report = probe_host(host.options());
  EXPECT_EQ(report.machine.platform, PlatformKind::cpu);
  EXPECT_EQ(report.machine.faults,
            (std::vector<std::string>{"npu-smi info: exit code 1: dcmi module initialize failed. "
                                      "ret is -8005"}));
}

}  // namespace
}  // namespace cohort::doctor
