#pragma once
/// A planned job for people: what `actor-node plan` prints. Pure. Each function adds one section to
/// the page; nothing is printed that the job does not have.
#include <string>
#include <vector>

#include "tools/actor-node/plan_input.hpp"
#include "tools/actor-node/plan_page.hpp"

namespace cohort {

/// The whole page. `config_name` stands in its first line.
std::string plan_text(const PlannedJob& job, const std::string& config_name,
                      const PageStyle& style);

/// Returns a line for each reason why a key does nothing here: the keys that share it, and it.
std::vector<std::string> keys_without_effect(const config::RunConfig& config,
                                             const std::string& config_name);

/// Which role is on which card, drawn per node; nodes alike are drawn once (plan_cards.cpp).
void add_cards(Page& page, const PlannedJob& job);
/// The phases of a step, and what each card holds in them (plan_memory.cpp).
void add_phases(Page& page, const PlannedJob& job);
/// What a role puts on each of its cards, with the arithmetic (plan_memory.cpp).
void add_roles(Page& page, const PlannedJob& job);

}  // namespace cohort
