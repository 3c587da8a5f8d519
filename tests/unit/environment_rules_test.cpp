#include "runtime/doctor/rules/environment_rules.hpp"

#include <gtest/gtest.h>

#include "tests/support/healthy_cluster.hpp"

namespace cohort::test {
namespace {

using namespace doctor;

using Strings = std::vector<std::string>;

/// A trainer on 0-3 and a vLLM rollout on 4-7, set as ROLL sets its workers.
EnvironmentFacts healthy_environment() {
  EnvironmentFacts facts;
  std::map<std::string, std::string> train{{"TASK_QUEUE_ENABLE", "2"},
                                           {"PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True"},
                                           {"ASCEND_RT_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"},
                                           {"HCCL_SOCKET_IFNAME", "eth0"}};
  std::map<std::string, std::string> infer = train;
  infer["TASK_QUEUE_ENABLE"] = "1";
  infer["PYTORCH_NPU_ALLOC_CONF"] = "";
  infer["VLLM_ASCEND_ENABLE_NZ"] = "0";
  facts.roles = {{"actor_train", "deepspeed_train", false, "host0", {0, 1, 2, 3}, train},
                 {"actor_infer", "vllm", true, "host0", {4, 5, 6, 7}, infer}};
  facts.present_cards = ids(0, 8);
  facts.interfaces = Strings{"eth0", "lo"};
  return facts;
}

std::vector<Finding> rule(const EnvironmentFacts& facts, const std::string& id) {
  std::vector<Finding> out;
  for (const Finding& x : check_environment(facts))
    if (x.rule == id) out.push_back(x);
  return out;
}

TEST(EnvironmentRules, RollsOwnSettingsPass) {
  for (const Finding& x : check_environment(healthy_environment()))
    EXPECT_TRUE(x.severity == Severity::ok || x.severity == Severity::skipped)
        << x.rule << " " << brief(x) << ": " << x.seen;
}

TEST(EnvironmentRules, E01VisibleDevices) {
  struct Case {
    const char* value;
    const char* expected;
  };
  const std::string key = "actor_train: ASCEND_RT_VISIBLE_DEVICES";
  for (const Case& c : {Case{"0,1,1,2,3", "error host0 "},
                        {"0,1,2,9", "error host0 "},
                        {"npu0", "error host0 "},
                        {"0,1", "error host0 card 2 "}}) {
    EnvironmentFacts facts = healthy_environment();
    facts.roles.resize(1);
    facts.roles[0].env["ASCEND_RT_VISIBLE_DEVICES"] = c.value;
    EXPECT_EQ(briefs(rule(facts, "E01")), Strings{c.expected + key}) << c.value;
  }
}

TEST(EnvironmentRules, E02ToE04ValuesThatAreRightForTrainingOnly) {
  EnvironmentFacts facts = healthy_environment();
  facts.roles[1].env = facts.roles[0].env;  // the seed exports one set for all
  EXPECT_EQ(briefs(rule(facts, "E02")), Strings{"warning host0 actor_infer: TASK_QUEUE_ENABLE"});
  EXPECT_EQ(briefs(rule(facts, "E03")),
            Strings{"warning host0 actor_infer: PYTORCH_NPU_ALLOC_CONF"});
  EXPECT_EQ(briefs(rule(facts, "E04")),
            Strings{"warning host0 actor_infer: VLLM_ASCEND_ENABLE_NZ"});
  facts.roles[0].env["TASK_QUEUE_ENABLE"] = "yes";
  EXPECT_EQ(rule(facts, "E02")[0].wanted, "0, 1 or 2");
}

TEST(EnvironmentRules, E05TwoRolesOnOneCard) {
  EnvironmentFacts facts = healthy_environment();
  facts.roles.push_back({"reference", "hf_infer", false, "host0", {7}, {}});
  auto found = rule(facts, "E05");
  EXPECT_EQ(briefs(found), Strings{"warning host0 card 7 reference: HCCL_NPU_SOCKET_PORT_RANGE"});
  facts.roles.back().env["HCCL_NPU_SOCKET_PORT_RANGE"] = "auto";
  EXPECT_TRUE(is_ok(rule(facts, "E05")));
}

TEST(EnvironmentRules, E06StrictWantsDeterministicSums) {
  EnvironmentFacts facts = healthy_environment();
  facts.is_strict = true;
  EXPECT_EQ(rule(facts, "E06").size(), 4u);
  for (auto& role : facts.roles) {
    role.env["HCCL_DETERMINISTIC"] = "true";
    role.env["LCCL_DETERMINISTIC"] = "1";
    role.env["ATB_MATMUL_SHUFFLE_K_ENABLE"] = "0";
    role.env["CLOSE_MATMUL_K_SHIFT"] = "1";
  }
  EXPECT_TRUE(is_ok(rule(facts, "E06")));
}

TEST(EnvironmentRules, E07InterfaceOfThisHost) {
  for (const char* good : {"eth0", "eth", "=eth0", "^docker"}) {
    EnvironmentFacts facts = healthy_environment();
    for (auto& role : facts.roles) role.env["HCCL_SOCKET_IFNAME"] = good;
    EXPECT_TRUE(is_ok(rule(facts, "E07"))) << good;
  }
  for (const char* bad : {"enp194s0f0", "=eth"}) {
    EnvironmentFacts facts = healthy_environment();
    facts.roles[0].env["HCCL_SOCKET_IFNAME"] = bad;
    EXPECT_EQ(briefs(rule(facts, "E07")), Strings{"error host0 actor_train: HCCL_SOCKET_IFNAME"});
  }
}

TEST(EnvironmentRules, VisibleDeviceListsAreParsedNotTrusted) {
  EXPECT_EQ(parse_visible_devices("0-2,5"), (std::vector<uint32_t>{0, 1, 2, 5}));
  EXPECT_EQ(parse_visible_devices(" 3 , 1 "), (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(parse_visible_devices("")->size(), 0u);
  for (const char* text : {",", "0,", "a", "3-1", "0-", "99999", "0-60000", "1;2", "0 1"})
    EXPECT_FALSE(parse_visible_devices(text)) << text;
}

Machine healthy_machine() {
  Machine x;
  x.host = "host0";
  x.evidence = "no NPU";
  x.memory_bytes = uint64_t{64} << 30;
  x.cores = 16;
  x.shm_bytes = uint64_t{8} << 30;
  x.open_files = 65536;
  x.blas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";
  x.disk_bytes = uint64_t{100} << 30;
  x.disk_path = "/data";
  return x;
}

TEST(MachineRules, EachRuleFiresAloneAndAHealthyMachineIsOk) {
  for (const Finding& x : check_machine(healthy_machine())) EXPECT_EQ(x.severity, Severity::ok);
  struct Case {
    const char* rule;
    Severity severity;
    void (*breaks)(Machine&);
  };
  const Case cases[] = {
      {"M01", Severity::warning, [](Machine& x) { x.faults = {"nvidia-smi: exit code 9"}; }},
      {"M01", Severity::error, [](Machine& x) { x.wanted_platform = "npu"; }},
      {"M01", Severity::error,
       [](Machine& x) {
         x.platform = PlatformKind::npu;
         x.faults = {"npu-smi is not on PATH"};
       }},
      {"M01", Severity::warning,
       [](Machine& x) {
         x.platform = PlatformKind::npu;
         x.device_files = 4;
         x.cards_listed = 8;
       }},
      {"M02", Severity::warning, [](Machine& x) { x.memory_wanted_bytes = uint64_t{65} << 30; }},
      {"M02", Severity::warning, [](Machine& x) { x.memory_bytes = uint64_t{1} << 30; }},
      {"M03", Severity::warning, [](Machine& x) { x.threads_wanted = 17; }},
      {"M04", Severity::warning, [](Machine& x) { x.shm_bytes = uint64_t{64} << 20; }},
      {"M05", Severity::warning, [](Machine& x) { x.open_files = 256; }},
      {"M06", Severity::warning, [](Machine& x) { x.blas = "/usr/lib/blas/libblas.so.3"; }},
      {"M07", Severity::warning, [](Machine& x) { x.disk_bytes = uint64_t{1} << 20; }},
      {"M07", Severity::error, [](Machine& x) { x.disk_wanted_bytes = uint64_t{200} << 30; }}};
  for (const Case& c : cases) {
    Machine machine = healthy_machine();
    c.breaks(machine);
    Strings fired;
    for (const Finding& x : check_machine(machine))
      if (x.severity != Severity::ok)
        fired.push_back(x.rule + " " + std::string(to_string(x.severity)));
    EXPECT_EQ(fired, Strings{std::string(c.rule) + " " + std::string(to_string(c.severity))});
  }
}

}  // namespace
}  // namespace cohort::test
