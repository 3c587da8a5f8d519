#include "tools/actor-node/card_processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "runtime/control/network.hpp"

namespace cohort {

Expected<std::vector<std::vector<CardId>>> split_cards(const plan::PlacementPlan& plan,
                                                       size_t count) {
  std::set<CardId> used;
  for (const plan::RoleSpec& role : plan.roles) used.insert(role.cards.begin(), role.cards.end());
  std::vector<CardId> cards(used.begin(), used.end());
  if (count == 0 || count > cards.size())
    return Error{Errc::config,
                 fmt::format("--processes {}: the configuration uses {} cards, {}; a process holds "
                             "one at least: say --processes 1 to {}",
                             count, cards.size(), plan::to_text(cards), cards.size())};
  std::vector<std::vector<CardId>> split(count);
  for (size_t i = 0; i < count; ++i)
    split[i].assign(cards.begin() + static_cast<ptrdiff_t>(cards.size() * i / count),
                    cards.begin() + static_cast<ptrdiff_t>(cards.size() * (i + 1) / count));
  return split;
}

std::string text_of(const plan::PlacementPlan& plan, const std::vector<CardId>& cards) {
  std::string roles;
  for (const plan::RoleSpec& role : plan.roles)
    if (std::ranges::any_of(cards, [&](CardId card) {
          return std::ranges::find(role.cards, card) != role.cards.end();
        }))
      roles += (roles.empty() ? "" : ", ") + role.role;
  return fmt::format("cards {}: {}", plan::to_text(cards), roles);
}

Expected<std::unique_ptr<CardProcesses>> CardProcesses::create(const config::RunConfig& config,
                                                               const plan::PlacementPlan& plan,
                                                               size_t count) {
  std::unique_ptr<CardProcesses> processes(new CardProcesses());
  COHORT_ASSIGN(processes->cards_, split_cards(plan, count));
  for (const std::vector<CardId>& cards : processes->cards_) {
    COHORT_ASSIGN(Environment environment, role_environment(config, plan, cards));
    processes->environments_.push_back(std::move(environment));
  }
  // Short: a socket's path has 107 characters at most.
  std::string pattern = (std::filesystem::temp_directory_path() / "cohort-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return Error{Errc::io, fmt::format("cannot make a folder for sockets, {}: {}", pattern,
                                       std::strerror(errno))};
  processes->wires_.socket_folder = pattern;
  return processes;
}

CardProcesses::~CardProcesses() {
  CardProcesses::finish("", 0);
  std::error_code ignored;
  std::filesystem::remove_all(wires_.socket_folder, ignored);
}

Expected<void> CardProcesses::start(caf::actor_system& system, const actors::RunFolder&,
                                    const actors::NodeActor& node) {
  COHORT_ASSIGN(uint16_t port, control::publish(system, node, {"127.0.0.1", 0}));
  node_ = node;
  address_ = fmt::format("127.0.0.1:{}", port);
  children_ = std::make_unique<platform::ChildProcesses>([this](const platform::ChildExit& exit) {
    std::lock_guard lock(mutex_);
    if (is_over_) return;
    const Attempt& attempt = attempts_[exit.index];
    caf::anon_send(node_, control::lost_atom_v,
                   control::ProcessLost{attempt.slot, attempt.number, exit.text});
  });
  for (uint32_t slot = 0; slot < cards_.size(); ++slot) COHORT_TRY(start({slot, 0}));
  return {};
}

Expected<void> CardProcesses::start(Attempt attempt) {
  std::lock_guard lock(mutex_);
  if (is_over_) return {};
  attempts_.push_back(attempt);
  auto started =
      children_->start({"/proc/self/exe", "card", "--join", address_, "--slot",
                        std::to_string(attempt.slot), "--attempt", std::to_string(attempt.number)},
                       environments_[attempt.slot]);
  if (!started) attempts_.pop_back();  // it has no index
  return started;
}

void CardProcesses::kill(Attempt attempt) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < attempts_.size() && !is_over_; ++i)
    if (attempts_[i].slot == attempt.slot && attempts_[i].number == attempt.number)
      children_->kill(i);
}

actors::ProcessControl CardProcesses::control() {
  return {[this](uint32_t slot, uint32_t attempt) {
            kill({slot, attempt});
          },
          [this](uint32_t slot, uint32_t attempt) {
            auto started = start({slot, attempt});
            if (!started)
              caf::anon_send(node_, control::fail_atom_v,
                             control::Failure{fmt::format("process {}", slot), "start",
                                              started.error().to_string()});
          }};
}

void CardProcesses::finish(const std::string&, int timeout_ms) {
  std::unique_ptr<platform::ChildProcesses> children;
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    node_ = nullptr;
    children = std::move(children_);
  }
  if (children) children->wait_all(timeout_ms);
}

}  // namespace cohort
