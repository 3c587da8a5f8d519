#pragma once
/// What the HCCL rules share: collecting findings, walking roles and cards of a Cluster. Pure;
/// used by hccl_rules*.cpp and environment_rules.cpp only.
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

/// Collects the findings of one rule.
class Findings {
 public:
  explicit Findings(std::string rule) : rule_(std::move(rule)) {}
  void add(Severity severity, std::string key, std::string seen, std::string wanted,
           std::string mend, std::string host = "", std::optional<uint32_t> card = {});
  bool is_empty() const { return found_.empty(); }
  /// Returns the findings; where there is none, one `ok` about `key`.
  std::vector<Finding> or_ok(std::string key, std::string seen) &&;
  /// Returns the findings; where there is none, one `skipped` with the reason.
  std::vector<Finding> or_skipped(std::string key, std::string why, std::string mend = "") &&;

 private:
  std::string rule_;
  std::vector<Finding> found_;
};

/// The processes of one role, in the order given.
struct RoleView {
  std::string role;
  std::vector<const Process*> processes;
  /// Devices by server: index of the host, its device ids ascending.
  std::vector<std::pair<size_t, std::set<uint32_t>>> servers() const;
};
/// Returns the roles in order of first appearance.
std::vector<RoleView> roles_of(const Cluster& cluster);

struct CardView {
  const Host* host = nullptr;
  const Card* card = nullptr;
};
/// Returns the cards that the job uses on the hosts described; all of them when the job is not
/// known.
std::vector<CardView> cards_in_use(const Cluster& cluster);

bool has_npu(const Cluster& cluster);
/// Number of servers of the job.
size_t server_count(const Cluster& cluster);
std::string host_name(const Cluster& cluster, size_t index);
/// Error for a job that is known, warning for one that is guessed.
Severity judged(const Cluster& cluster);
/// Error, but warning when the job is known to stay on one server: its device network is idle.
Severity network_severity(const Cluster& cluster);
/// Returns "0, 1, 5".
std::string list_of(const std::set<uint32_t>& values);
/// Returns the whole text as a number.
std::optional<uint64_t> number_of(std::string_view text);
/// Returns the text in quotes, or "not set".
std::string in_quotes(std::string_view text);

template <class Facts>
using Rule = std::vector<Finding> (*)(const Facts&);
/// Returns the findings of all rules, in order.
template <class Facts>
std::vector<Finding> run_rules(const Facts& facts, std::initializer_list<Rule<Facts>> rules) {
  std::vector<Finding> all;
  for (Rule<Facts> rule : rules)
    for (Finding& finding : rule(facts)) all.push_back(std::move(finding));
  return all;
}

}  // namespace cohort::doctor
