#pragma once
/// Hosts that are network namespaces on a bridge of their own, each with its address: what runs
/// there sees no other network, and nobody outside sees it. Root only. Gone with the object, and
/// what still runs there is the test's to end.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort::test {

class NetHosts {
 public:
  /// Whether this machine lets a test make them; else why not.
  static std::string why_not() {
    if (::geteuid() != 0) return "needs root to make network namespaces";
    if (!shell("ip netns add cohort-probe")) return "`ip netns add` fails here";
    shell("ip netns del cohort-probe");
    return "";
  }
  explicit NetHosts(int count) : bridge_("chb" + std::to_string(::getpid())) {
    is_up_ = shell("ip link add " + bridge_ + " type bridge && ip link set " + bridge_ + " up");
    for (int i = 1; i <= count && is_up_; ++i) {
      const std::string name = "cohort-" + std::to_string(::getpid()) + "-" + std::to_string(i);
      const std::string end = wire(static_cast<size_t>(i - 1));
      names_.push_back(name);
      is_up_ = shell("ip netns add " + name + " && ip link add " + end +
                     " type veth peer name eth0 netns " + name + " && ip link set " + end +
                     " master " + bridge_ + " up && ip -n " + name + " addr add " + address(i - 1) +
                     "/24 dev eth0 && ip -n " + name + " link set eth0 up && ip -n " + name +
                     " link set lo up");
    }
  }
  ~NetHosts() {
    // A socket that still has something to send keeps its namespace, and so the wire, for minutes.
    for (size_t host = 0; host < names_.size(); ++host) shell("ip link del " + wire(host));
    for (const std::string& name : names_) shell("ip netns del " + name);
    shell("ip link del " + bridge_);
  }
  NetHosts(const NetHosts&) = delete;
  NetHosts& operator=(const NetHosts&) = delete;

  bool is_up() const { return is_up_; }
  static std::string address(size_t host) { return "10.77.0." + std::to_string(host + 1); }
  /// Returns the command that runs `command` on a host, with these variables.
  std::vector<std::string> on(size_t host, const std::vector<std::string>& command,
                              const std::vector<std::string>& variables = {}) const {
    std::vector<std::string> words = {"/usr/bin/env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {"ip", "netns", "exec", names_.at(host)});
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// Cuts a host off, or connects it again: its packets are lost, nobody is told.
  bool set_cut(size_t host, bool is_cut) const {
    return shell("ip link set " + wire(host) + (is_cut ? " nomaster" : " master " + bridge_));
  }

  /// What the host sends goes at this rate, as "200kbit", through a queue of 300 ms.
  bool set_rate(size_t host, const std::string& rate) const {
    return shell("ip netns exec " + names_.at(host) + " tc qdisc replace dev eth0 root tbf rate " +
                 rate + " burst 4kb latency 300ms");
  }

 private:
  /// The end of a host's wire that is outside.
  static std::string wire(size_t host) {
    return "ch" + std::to_string(::getpid()) + "." + std::to_string(host + 1);
  }
  static bool shell(const std::string& line) {
    return std::system(("PATH=$PATH:/usr/sbin:/sbin; { " + line + "; } >/dev/null 2>&1").c_str()) ==
           0;
  }
  std::string bridge_;
  std::vector<std::string> names_;
  bool is_up_ = false;
};

}  // namespace cohort::test
