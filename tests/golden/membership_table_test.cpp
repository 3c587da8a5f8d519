// What each event does in each state, as docs/membership.md prints it; COHORT_UPDATE_GOLDEN=1
// rewrites the table. Slot 1 is looked at; slot 2 is its unit's other half, slot 3 another replica.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "tests/support/member_rig.hpp"

namespace cohort::plan {
namespace {

using namespace member;
using test::MemberRig;

constexpr std::string_view k_begin = "<!-- table: begin (COHORT_UPDATE_GOLDEN=1 rewrites) -->\n";
constexpr std::string_view k_end = "<!-- table: end -->\n";
constexpr uint32_t k_slot = 1, k_other = 2;

/// Returns a run in which slot 1 is so.
MemberRig rig_in(Standing standing) {
  const bool is_absent = standing == Standing::absent;
  MemberRig rig(test::unit_slots(),
                test::startable(is_absent ? std::set<uint32_t>{k_slot} : std::set<uint32_t>{}));
  rig.begin();
  auto lose = [&] {
    rig.exit(k_slot);
    rig.exit(k_other);
  };
  switch (standing) {
    case Standing::absent:
    case Standing::here:
      break;
    case Standing::starting:
      lose();
      break;
    case Standing::joined:
      lose();
      rig.ready(k_slot);
      break;
    case Standing::leaving:
      rig.feed(LeaveAsked{1, {k_slot}, 1000});
      break;
    case Standing::fenced:
      rig.exit(k_other);
      break;
    case Standing::parted:
      rig.feed(LeaveAsked{1, {k_slot}, 1000});
      rig.feed(LeaveAnswered{1, {}});
      break;
    case Standing::ended:
      rig.exit(k_slot);
      break;
    case Standing::gone:
      for (int i = 0; i < 4; ++i) {
        lose();
        rig.ready(k_slot);
        rig.ready(k_other);
      }
  }
  EXPECT_EQ(rig.machine.standing(k_slot), standing);
  return rig;
}

struct Row {
  std::string name;
  std::function<std::vector<std::string>(MemberRig&)> happens;
};

std::vector<Row> rows() {
  auto now = [](const MemberRig& rig) { return rig.machine.attempt(k_slot); };
  auto link_fails = [](MemberRig& rig, std::optional<uint32_t> attempt) {
    auto texts = rig.feed(LinkFailed{"rewards", "x", k_slot, attempt});
    for (std::string& text : rig.pass(3)) texts.push_back(std::move(text));
    return texts;
  };
  auto judged = [](Judgement judgement) {
    return [=](MemberRig& rig) { return rig.feed(Judged{k_slot, judgement, "hangs"}); };
  };
  return {
      {"Hello",
       [=](auto& r) {
         return r.feed(Hello{k_slot, now(r)});
       }},
      {"Hello of another attempt",
       [=](auto& r) {
         return r.feed(Hello{k_slot, now(r) + 1});
       }},
      {"Ready", [=](auto& r) { return r.ready(k_slot); }},
      {"Ready of another attempt",
       [=](auto& r) {
         return r.feed(Ready{k_slot, now(r) + 1});
       }},
      {"Beat",
       [=](auto& r) {
         return r.feed(Beat{k_slot, now(r)});
       }},
      {"TimePassed: 3 s, it does not answer", [](auto& r) { return r.pass(3.5, {k_slot}); }},
      {"TimePassed: 60 s, it answers", [](auto& r) { return r.pass(60); }},
      {"Exited", [](auto& r) { return r.exit(k_slot); }},
      {"Exited with its node", [](auto& r) { return r.exit(k_slot, true); }},
      {"Exited, another attempt",
       [=](auto& r) {
         return r.feed(Exited{k_slot, now(r) + 1, "was killed", false});
       }},
      {"Exited, the other of its unit", [](auto& r) { return r.exit(k_other); }},
      {"FirstPolicySaved", [](auto& r) { return r.feed(FirstPolicySaved{}); }},
      {"Judged hung", judged(Judgement::hung)},
      {"Judged alone", judged(Judgement::alone)},
      {"Judged shared", judged(Judgement::shared)},
      {"Judged pardon", judged(Judgement::pardon)},
      {"LeaveAsked",
       [](auto& r) {
         return r.feed(LeaveAsked{2, {k_slot}, 1000});
       }},
      {"LeaveAnswered: agreed",
       [](auto& r) {
         return r.feed(LeaveAnswered{1, {}});
       }},
      {"LeaveAnswered: refused",
       [](auto& r) {
         return r.feed(LeaveAnswered{1, "no"});
       }},
      {"LinkFailed of its attempt, then 3 s", [=](auto& r) { return link_fails(r, now(r)); }},
      {"LinkFailed, no attempt said, 20 s after",
       [=](auto& r) {
         r.pass(20);
         return link_fails(r, {});
       }},
      {"StartFailed",
       [](auto& r) {
         return r.feed(StartFailed{"process", "no card"});
       }},
      {"Open, again", [](auto& r) { return r.feed(Open{}); }},
      {"Over", [](auto& r) { return r.feed(Over{}); }},
  };
}

/// Returns the commands' first words with their slots, e.g. "fence 1, kill 1, tell lost".
std::string short_text(const std::vector<std::string>& commands) {
  std::string text;
  for (const std::string& command : commands) {
    std::string word = command.substr(0, command.find(':'));
    word = word.substr(0, word.find(" as a loss"));
    word = word.substr(0, word.find_first_of("/["));
    while (word.ends_with(' ')) word.pop_back();
    if (word.starts_with("ask the driver")) word = "ask the driver";
    if (!text.ends_with(word)) text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

std::string table() {
  std::ostringstream out;
  for (const Standing standing : k_standings) {
    out << "\n### " << to_string(standing) << "\n\n| event | commands | then |\n|---|---|---|\n";
    std::string nothing;
    for (const Row& row : rows()) {
      MemberRig rig = rig_in(standing);
      const std::string commands = short_text(row.happens(rig));
      const Standing then = rig.machine.standing(k_slot);
      if (commands.empty() && then == standing) {
        nothing += (nothing.empty() ? "" : "; ") + row.name;
        continue;
      }
      out << "| " << row.name << " | " << commands << " | "
          << (rig.count<EndRun>() > 0 ? "the run is over"
              : then == standing      ? "as before"
                                      : std::string(to_string(then)))
          << " |\n";
    }
    out << "\nNothing is commanded, and it stays: " << nothing << ".\n";
  }
  out << "\n";
  return out.str();
}

TEST(MembershipTable, IsThatOfTheDocs) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string path = std::string(source) + "/docs/membership.md";
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  const std::string text = stream.str();
  size_t begin = text.find(k_begin);
  const size_t end = text.find(k_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  begin += k_begin.size();
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) << table() << text.substr(end);
    return;
  }
  EXPECT_TRUE(text.substr(begin, end - begin) == table())
      << "docs/membership.md is not the machine's; run this test with COHORT_UPDATE_GOLDEN=1";
}

// A new event needs a row, a new state a heading.
TEST(MembershipTable, EveryEventHasARow) {
  EXPECT_EQ(std::variant_size_v<Event>, 13U) << "a row for the new event, then this number";
  EXPECT_EQ(k_standings.size(), 9U);
}

}  // namespace
}  // namespace cohort::plan
