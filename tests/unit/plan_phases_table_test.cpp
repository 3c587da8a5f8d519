// The tables in the head comment of phases_table.hpp are what target_of() does: each cell is read
// from the comment and compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/plan/place/phases_table.hpp"
#include "tests/support/plan_gen.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::plan::plan_phases_table_test {
namespace {

using Row = std::vector<std::string>;              // the cells of a phase
using Table = std::map<std::string, Row>;          // by phase
using Columns = std::vector<std::vector<Object>>;  // the objects of a column

/// Returns the tables of the head comment: a header line begins one, a row begins with a phase.
std::vector<Table> tables_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Table> tables;
  for (std::string line;
       std::getline(file, line) && (line.starts_with("#") || line.starts_with("///"));) {
    if (const size_t at = line.find("* or host"); at != std::string::npos) line.replace(at, 9, "*");
    std::istringstream words(line.substr(3));
    std::string first, cell;
    words >> first;
    if (first == "phase") tables.emplace_back();
    const bool is_row =
        std::ranges::any_of(k_phases, [&](PhaseKind x) { return to_string(x) == first; });
    if (!is_row || tables.empty() || !line.starts_with("///   ")) continue;
    Row row;
    while (row.size() < 6 && words >> cell) row.push_back(cell);
    tables.back()[first] = row;
  }
  return tables;
}

std::string cell_of(std::optional<Place> target) {
  return target ? std::string(to_string(*target)) : "-";
}

/// A train, critic, infer and reference role of one byte an object, infer_params of five.
PlacementPlan plan_of(PlacementMode mode, uint64_t budget) {
  const uint32_t infer = mode == PlacementMode::separate ? 1 : 0;
  std::vector<RoleSpec> roles = {test::make_role("actor_train", 0, 1, test::k_train_objects, 1),
                                 test::make_role("critic", 0, 1, test::k_critic_objects, 1),
                                 test::make_role("actor_infer", infer, 1, test::k_infer_objects, 1),
                                 test::make_role("reference", infer, 1, {Object::ref_params}, 1)};
  roles[2].bytes_per_card[Object::infer_params] = 5;
  return plan_placement(mode, test::make_cards(infer + 1, budget, 0), roles).value();
}

void expect_table(const PlacementPlan& plan, const Table& table, const Columns& columns,
                  const std::string& star) {
  ASSERT_EQ(table.size(), k_phases.size());
  for (PhaseKind phase : k_phases) {
    const Row& row = table.at(std::string(to_string(phase)));
    ASSERT_EQ(row.size(), columns.size()) << to_string(phase);
    for (size_t i = 0; i < columns.size(); ++i)
      for (Object object : columns[i]) {
        const RoleSpec& role = *plan.owner_of(object);
        const std::string wanted = row[i] == "*" ? star : row[i];
        for (Place now : {Place::card, Place::host})
          EXPECT_EQ(cell_of(target_of(plan, OffloadPolicy::step, phase,
                                      {role, role.cards[0], object, now})),
                    wanted)
              << to_string(phase) << " " << to_string(object);
      }
  }
}

TEST(PhasesTable, EachCellIsWhatTheObjectDoes) {  // PLACE-3 rests on the second
  const auto tables = tables_of(test::source_path("runtime/plan/place/phases_table.hpp"));
  ASSERT_EQ(tables.size(), 2u);
  expect_table(plan_of(PlacementMode::separate, 100), tables[0],
               {{Object::train_params},
                {Object::grads, Object::critic_grads},
                {Object::optimizer, Object::critic_optimizer},
                {Object::infer_params},
                {Object::kv_cache},
                {Object::ref_params}},
               "");
  const Columns shared = {{Object::train_params},
                          {Object::grads, Object::critic_grads},
                          {Object::optimizer, Object::critic_params, Object::critic_optimizer},
                          {Object::infer_params},
                          {Object::kv_cache},
                          {Object::ref_params}};
  expect_table(plan_of(PlacementMode::timeshare, 100), tables[1], shared, "-");
  expect_table(plan_of(PlacementMode::timeshare, 6), tables[1], shared, "host");
}

}  // namespace
}  // namespace cohort::plan::plan_phases_table_test
