/// `actor-node doctor` over stand-in hosts: what it prints, its exit code, its JSON.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tests/support/config_text.hpp"
#include "tests/support/stand_in_host.hpp"
#include "tools/actor-node/doctor_command.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::StandInHost;

/// Sets variables for its scope.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name.c_str());
      before_[name] = old == nullptr ? std::optional<std::string>() : std::string(old);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

struct Answer {
  int code = 0;
  std::string text;
  json report;  // with --json
  /// "H11 error card 3 link" of each error and warning.
  std::set<std::string> complaints() const {
    std::set<std::string> out;
    for (const json& x : report.at("findings"))
      if (x.at("severity") == "error" || x.at("severity") == "warning")
        out.insert(fmt::format(
            "{} {} {}{}", x.at("rule").get<std::string>(), x.at("severity").get<std::string>(),
            x.contains("card") ? fmt::format("card {} ", x["card"].get<int>()) : std::string(),
            x.at("key").get<std::string>()));
    return out;
  }
};

Answer doctor(const StandInHost& host, DoctorCommand command = {}, bool is_json = true,
              std::map<std::string, std::string> env = {}) {
  env["PATH"] = (host.root() / "bin").string();
  Environment environment(env);
  command.sysroot = host.root().string();
  command.is_json = is_json;
  testing::internal::CaptureStdout();
  Answer answer;
  answer.code = doctor_command(command);
  answer.text = testing::internal::GetCapturedStdout();
  if (is_json) answer.report = json::parse(answer.text, nullptr, false);
  return answer;
}

DoctorCommand with_config(const std::string& file, std::vector<std::string> overrides = {}) {
  DoctorCommand command;
  command.config.path = test::source_path("tests/data/seed_configs/" + file);
  command.config.overrides = std::move(overrides);
  return command;
}

using Complaints = std::set<std::string>;

/// What a stand-in host cannot help: limits of the machine that the test runs on.
Complaints without_machine(const Complaints& all) {
  Complaints out;
  for (const std::string& x : all)
    if (!x.starts_with("M04") && !x.starts_with("M05") && !x.starts_with("M06") &&
        !x.starts_with("M07"))
      out.insert(x);
  return out;
}

TEST(Doctor, PlainMachineSaysSoAndExitsZero) {
  StandInHost host("laptop");
  Answer answer = doctor(host, {}, false);
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_NE(answer.text.find("laptop: cpu: no NPU and no GPU"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("\nskipped  H01 "), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("ok       H09 ports: 60000-60015 are free"), std::string::npos)
      << answer.text;
}

TEST(Doctor, HealthyHostsOfEverySeries) {
  for (bool is_a3 : {false, true}) {
    StandInHost host("node0");
    host.add_npus(is_a3 ? test::npu_smi_info_a3(8) : test::npu_smi_info("910B3", 8, 65536),
                  is_a3 ? 16 : 8, 0);
    Answer answer = doctor(host);
    EXPECT_EQ(answer.code, 0) << answer.text;
    EXPECT_EQ(without_machine(answer.complaints()), Complaints{});
    EXPECT_EQ(answer.report["series"], is_a3 ? "A3" : "A2");
  }
  StandInHost training("node0");
  training.add_npus(test::npu_smi_info("910A", 8, 32768), 8, 0, true);
  EXPECT_EQ(without_machine(doctor(training).complaints()), Complaints{});
}

TEST(Doctor, FaultsAreFoundAndMended) {
  StandInHost host("node0");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  host.hccn(1, "-link -g", "link status: DOWN\n");
  host.hccn(2, "-net_health -g", "net health status: Unreachable\n");
  host.hccn(3, "-tls -g", test::hccn_tls(3, 1));
  host.hccn(4, "-ip -g", "ipaddr:10.20.1.10\nnetmask:255.255.0.0\n");  // card 0's
  host.hccn(5, "-ip -g", "ipaddr:172.16.0.5\nnetmask:255.255.0.0\n");
  host.hccn(6, "-lldp -g", "\n");
  host.hccn(7, "-tls -g", "Segmentation fault\n");
  host.script("ufw", "echo 'Status: active'\n");
  host.write("proc/net/tcp", "   0: 0100007F:EA65 0:0 0A\n");
  host.write("proc/sys/net/ipv4/ip_local_reserved_ports", "\n");
  Answer answer = doctor(host);
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(without_machine(answer.complaints()),
            (Complaints{"H09 error ports", "H09 warning net.ipv4.ip_local_reserved_ports",
                        "H10 error card 4 device ip", "H10 error card 5 device ip",
                        "H11 error card 1 link", "H11 error card 2 net_health",
                        "H11 error card 3 tls switch", "H11 error card 6 lldp",
                        "H11 warning card 7 hccn_tool", "H12 warning firewall"}));
  Answer table = doctor(host, {}, false);
  EXPECT_NE(table.text.find("error    H11 node0 card 3: tls switch: on; wanted: off, as on 6 "
                            "other cards: equal on all, or links are not built; mend: hccn_tool "
                            "-i 3 -tls -s enable 0\n"),
            std::string::npos)
      << table.text;
}

TEST(Doctor, MissingAndHangingTools) {
  StandInHost host("node0");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  host.script("hccn_tool", "exec /bin/sleep 600\n");
  DoctorCommand command;
  command.tool_timeout_s = 0.2;
  Answer hanging = doctor(host, command);
  EXPECT_EQ(hanging.code, 0);
  EXPECT_EQ(without_machine(hanging.complaints()), Complaints{"M01 warning tools"});
  std::filesystem::remove(host.root() / "bin/npu-smi");
  Answer missing = doctor(host, command);
  EXPECT_EQ(missing.code, 1);  // cards that cannot be listed
  EXPECT_TRUE(missing.complaints().contains("M01 error tools"));
}

TEST(Doctor, SeedOneOnAnA2Host) {
  StandInHost host("node0");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  Answer answer = doctor(host, with_config("agentic_frozen_lake_npu.yaml"));
  EXPECT_EQ(answer.code, 0) << answer.text;
  // The rollout's engine is vLLM, and its weights in NZ layout would not survive a reload.
  EXPECT_TRUE(answer.complaints().contains("E04 warning actor_infer: VLLM_ASCEND_ENABLE_NZ"))
      << answer.text;
}

TEST(Doctor, ConfigsThatTheHostCannotRun) {
  StandInHost training("node0");
  training.add_npus(test::npu_smi_info("910A", 8, 32768), 8, 0, true);
  Answer bf16 = doctor(training, with_config("agentic_frozen_lake_npu.yaml"));
  EXPECT_EQ(bf16.code, 1);
  EXPECT_TRUE(bf16.complaints().contains("H16 error actor_train.model_args.dtype"));
  Answer three =
      doctor(training, with_config("agentic_frozen_lake_npu.yaml",
                                   {"actor_train.device_mapping=[1,2,3]", "rollout_batch_size=768",
                                    "train_env_manager.num_env_groups=96",
                                    "train_env_manager.num_groups_partition=[96]"}));
  EXPECT_TRUE(three.complaints().contains("H01 error actor_train.device_mapping")) << three.text;
  StandInHost half("node0");
  half.add_npus(test::npu_smi_info("910B3", 4, 65536), 4, 0);
  Answer few = doctor(half, with_config("agentic_frozen_lake_npu.yaml"));
  // Four cards a node: the rollout's 4-7 are a second node's.
  EXPECT_EQ(few.code, 1);
  EXPECT_TRUE(few.complaints().contains("H07 error actor_infer.device_mapping")) << few.text;
  few = doctor(
      half, with_config("agentic_frozen_lake_npu.yaml"), true,
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.9.0.1"}, {"MASTER_PORT", "6379"}});
  EXPECT_EQ(few.code, 0) << few.text;
  EXPECT_NE(few.text.find("1 of 2 hosts are described"), std::string::npos) << few.text;
}

TEST(Doctor, ConfigJudgedForASeriesThatIsNotHere) {
  StandInHost host("laptop");
  DoctorCommand command = with_config("agentic_frozen_lake_npu.yaml");
  command.series = "training";
  EXPECT_TRUE(
      doctor(host, command).complaints().contains("H16 error actor_train.model_args.dtype"));
  command.series = "a4";
  EXPECT_EQ(doctor(host, command).code, 2);
}

TEST(Doctor, EnvironmentAndTimeouts) {
  StandInHost host("node0");
  host.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  Answer answer = doctor(host, {}, true,
                         {{"RANK", "2"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "6379"},
                          {"ASCEND_RT_VISIBLE_DEVICES", "0,1,9"}});
  EXPECT_EQ(without_machine(answer.complaints()),
            (Complaints{"E01 error this shell: ASCEND_RT_VISIBLE_DEVICES", "H07 error MASTER_ADDR",
                        "H07 error RANK", "H14 warning HCCL_CONNECT_TIMEOUT"}));
}

TEST(Doctor, ReportsOfOtherHostsAreJudgedTogether) {
  StandInHost first("node0"), second("node1");
  first.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 0);
  second.add_npus(test::npu_smi_info("910B3", 8, 65536), 8, 1);
  second.hccn(3, "-ip -g", "ipaddr:10.20.1.10\nnetmask:255.255.0.0\n");  // node0's card 0
  second.answer("npu-smi", "info -t board -i 0",
                "Software Version : 24.1.rc3\nFirmware Version : 7.8.0.2.212\n");
  auto env = [](const char* rank) {
    return std::map<std::string, std::string>{{"RANK", rank},
                                              {"WORLD_SIZE", "2"},
                                              {"MASTER_ADDR", "10.9.0.1"},
                                              {"MASTER_PORT", "6379"},
                                              {"HCCL_CONNECT_TIMEOUT", "3600"},
                                              {"SECRET_TOKEN", "hunter2"}};
  };
  Answer there = doctor(second, {}, true, env("1"));
  EXPECT_EQ(there.text.find("hunter2"), std::string::npos);  // only what rules read is written
  first.write("node1.json", there.text);
  DoctorCommand command;
  command.host_files = {(first.root() / "node1.json").string()};
  Answer both = doctor(first, command, true, env("0"));
  EXPECT_EQ(without_machine(both.complaints()),
            (Complaints{"H10 error card 3 device ip", "H15 warning driver"}));
  command.host_files = {(first.root() / "proc/meminfo").string()};
  EXPECT_EQ(doctor(first, command).code, 2);
}

TEST(Doctor, BrokenConfigIsExitCodeTwo) {
  StandInHost host("node0");
  DoctorCommand command = with_config("no_such_file.yaml");
  EXPECT_EQ(doctor(host, command).code, 2);
}

}  // namespace
}  // namespace cohort
