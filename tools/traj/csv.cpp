#include <fmt/format.h>

#include <cmath>
#include <set>
#include <variant>

#include "runtime/query/fields.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/text_output.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

/// What a cell holds that quotes must surround (RFC 4180, section 2).
constexpr std::string_view k_special = "\",\r\n";

std::string quoted(const std::string& text) {
  if (text.find_first_of(k_special) == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

/// A number in the fewest digits that read back to the same; a missing one is an empty cell.
std::string number_cell(double value) {
  return std::isnan(value) ? std::string() : fmt::format("{}", value);
}

std::string cell(const query::Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_cell(*number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return quoted(printable(std::get<std::string>(value)));
}

/// The long texts are left out unless they are asked for; `text` would only repeat the others.
bool is_column(const query::Field& field, bool with_texts) {
  if (field.name == "text") return false;
  return with_texts || (field.name != "observation" && field.name != "response");
}

struct Columns {
  std::vector<const query::Field*> fields;
  std::set<std::string> rewards, metrics;  // names that occur

  std::string header() const {
    std::string line;
    for (const query::Field* field : fields) line += std::string(field->name) + ",";
    for (const std::string& name : rewards) line += quoted(printable("reward." + name)) + ",";
    for (const std::string& name : metrics) line += quoted(printable("metric." + name)) + ",";
    line.back() = '\r';
    return line + '\n';
  }

  std::string row(const proto::Trajectory& x) const {
    std::string line;
    for (const query::Field* field : fields)  // a query has seeds as doubles
      line += (field->name == "seed" ? fmt::to_string(x.seed) : cell(field->get(x))) + ",";
    for (const std::string& name : rewards) line += number_cell(query::reward_part(x, name)) + ",";
    for (const std::string& name : metrics) line += number_cell(query::metric(x, name)) + ",";
    line.back() = '\r';
    return line + '\n';
  }
};

}  // namespace

Expected<void> csv(const CsvOptions& options) {
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  Columns columns;
  for (const query::Field& field : query::fields())
    if (is_column(field, options.with_texts)) columns.fields.push_back(&field);
  const Choice choice{options.step, options.kind, 0};
  // The header names what occurs, so all are read before the first row. The second pass tells of
  // what is damaged.
  Choice first_pass = choice;
  first_pass.is_quiet = true;
  (void)for_each_trajectory(reader, first_pass,
                            [&](const stream::RecordInfo&, const proto::Trajectory& x) {
                              for (const proto::RewardPart& part : x.reward_parts)
                                columns.rewards.insert(part.name);
                              for (const auto& [name, value] : x.metrics)
                                columns.metrics.insert(name);
                            })
      .has_value();
  COHORT_ASSIGN(TextOutput out, TextOutput::open(options.file));
  Expected<void> written = out.write(columns.header());
  uint64_t count = 0;
  auto result = for_each_trajectory(reader, choice,
                                    [&](const stream::RecordInfo&, const proto::Trajectory& x) {
                                      if (written) written = out.write(columns.row(x));
                                      ++count;
                                    });
  COHORT_TRY(written);
  COHORT_TRY(out.finish());
  if (!out.is_stdout()) fmt::print("{} trajectories to {}\n", count, options.file);
  return result;
}

}  // namespace cohort::traj
