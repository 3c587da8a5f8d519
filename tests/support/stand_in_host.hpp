#pragma once
/// A host made of files: a sysroot with /proc, /dev, /sys, and stand-in tools on a PATH folder that
/// print what the real ones do. Removed at the end of its scope. Answers are set per question.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "runtime/doctor/probes/probe.hpp"
#include "tests/support/tool_texts.hpp"

namespace cohort::test {

class StandInHost {
 public:
  explicit StandInHost(const std::string& name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "cohort-host-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(root_ / "bin");
    std::filesystem::create_directories(root_ / "answers");
    write("proc/sys/kernel/hostname", name + "\n");
    write("proc/sys/net/core/somaxconn", "65535\n");
    write("proc/sys/net/ipv4/tcp_max_syn_backlog", "65535\n");
    write("proc/sys/net/ipv4/ip_local_reserved_ports", "60000-60015\n");
    write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    write("proc/net/tcp", "  sl  local_address rem_address   st\n   0: 0100007F:0016 0:0 0A\n");
    write("proc/meminfo", "MemAvailable:   263882576 kB\n");
    write("sys/class/net/eth0", "");
    std::filesystem::create_directories(root_ / "dev/shm");
  }
  StandInHost(const StandInHost&) = delete;
  StandInHost& operator=(const StandInHost&) = delete;
  ~StandInHost() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path& root() const { return root_; }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  /// Makes an executable shell script of the PATH folder.
  void script(const std::string& name, const std::string& body) const {
    std::filesystem::path file = root_ / "bin" / name;
    std::ofstream(file) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  /// A tool that prints the answer set for its arguments joined by blanks, else fails.
  void tool(const std::string& name) const {
    script(name, fmt::format("f='{}/answers/{}'\"/$*\"\n"
                             "if [ -f \"$f\" ]; then exec /bin/cat \"$f\"; fi\n"
                             "echo 'Cmd executed failed!'; exit 1\n",
                             root_.string(), name));
    std::filesystem::create_directories(root_ / "answers" / name);
  }
  void answer(const std::string& tool, const std::string& arguments,
              const std::string& text) const {
    std::ofstream(root_ / "answers" / tool / arguments) << text;
  }
  void hccn(uint32_t id, const std::string& question, const std::string& text) const {
    answer("hccn_tool", fmt::format("-i {} {}", id, question), text);
  }

  /// A healthy host of `count` dies: device files, npu-smi, hccn_tool, CANN, no firewall.
  void add_npus(const std::string& table, uint32_t count, int host_index,
                bool is_training = false) const {
    tool("npu-smi");
    tool("hccn_tool");
    script("ufw", "echo 'Status: inactive'\n");
    answer("npu-smi", "info", table);
    answer("npu-smi", "info -t board -i 0", npu_smi_board());
    write("usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info",
          "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\n");
    for (uint32_t id = 0; id < count; ++id) {
      write(fmt::format("dev/davinci{}", id), "");
      std::string ip = is_training ? fmt::format("10.{}.0.{}", id % 4, 2 + host_index * 2 + id / 4)
                                   : fmt::format("10.20.{}.{}", host_index + 1, 10 + id);
      hccn(id, "-ip -g",
           fmt::format("ipaddr:{}\nnetmask:{}\n", ip,
                       is_training ? "255.255.255.0" : "255.255.0.0"));
      hccn(id, "-link -g", "link status: UP\n");
      hccn(id, "-net_health -g", "net health status: Success\n");
      hccn(id, "-netdetect -g", "netdetect address: 10.20.0.1\n");
      hccn(id, "-tls -g", hccn_tls(id, 0));
      hccn(id, "-lldp -g",
           "Chassis ID TLV\n\tMAC: 0c:31:dc\nPort ID TLV\n\tIfname: 400GE1/1/5:1\n");
    }
    write("dev/davinci_manager", "");
  }

  doctor::ProbeOptions options() const {
    doctor::ProbeOptions options;
    options.sysroot = root_.string();
    options.env = {{"PATH", (root_ / "bin").string()}};
    options.disk_path = root_.string();
    return options;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace cohort::test
