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

Expected<std::unique_ptr<CardProcesses>> CardProcesses::create(const plan::PlacementPlan& plan,
                                                               size_t count) {
  std::unique_ptr<CardProcesses> processes(new CardProcesses());
  COHORT_ASSIGN(processes->cards_, split_cards(plan, count));
  for (size_t i = 0; i < count; ++i)
    processes->names_.push_back(
        fmt::format("process {} ({})", i, text_of(plan, processes->cards_[i])));
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

Expected<void> CardProcesses::start(caf::actor_system& system, const std::string&,
                                    const actors::NodeActor& node) {
  COHORT_ASSIGN(uint16_t port, control::publish(system, node, {"127.0.0.1", 0}));
  children_ =
      std::make_unique<platform::ChildProcesses>([this, node](const platform::ChildExit& exit) {
        if (!is_over_)
          caf::anon_send(node, control::fail_atom_v,
                         control::Failure{names_[exit.index], "supervision", "it " + exit.text});
      });
  std::string address = fmt::format("127.0.0.1:{}", port), parent = std::to_string(::getpid());
  for (size_t slot = 0; slot < cards_.size(); ++slot) {
    auto started = children_->start({"/proc/self/exe", "card", "--join", address, "--slot",
                                     std::to_string(slot), "--parent", parent});
    if (!started) return started.error();
  }
  return {};
}

void CardProcesses::finish(const std::string&, int timeout_ms) {
  is_over_ = true;
  if (children_ == nullptr) return;
  children_->wait_all(timeout_ms);
  children_.reset();
}

}  // namespace cohort
