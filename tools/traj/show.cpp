#include <fmt/format.h>

#include <vector>

#include "tools/traj/open_run.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

void print_text(const char* label, const std::string& text) {
  fmt::print("  {}:\n", label);
  std::string line;
  for (char c : printable(text) + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    fmt::print("    {}\n", line);
    line.clear();
  }
}

void print_head(const stream::RecordInfo& info, const proto::Trajectory& x) {
  fmt::print("trajectory   {}\n", proto::to_string(x.key));
  fmt::print("run          {}  attempt {}  tag {}  seed {}\n", printable(x.run_id), x.attempt,
             printable(x.tag), x.seed);
  if (!x.prompt_id.empty()) fmt::print("prompt       {}\n", printable(x.prompt_id));
  if (!x.data_source.empty())
    fmt::print("row          {}, ground truth {}\n", printable(x.data_source),
               printable(x.ground_truth));
  fmt::print("record       {} in segment {} at {}, {}\n", info.number, info.id.segment,
             info.id.offset, format_bytes(static_cast<double>(info.size_bytes())));
  fmt::print("weights      version {} to {}\n", x.weight_version_min, x.weight_version_max);
  fmt::print("stopped by   {}\n", printable(x.stop_reason));
  fmt::print("time         generate {:.3f} s, environment {:.3f} s\n", x.generate_seconds,
             x.env_seconds);
  fmt::print("score        {:.4f}\n", x.score);
  for (const proto::RewardPart& part : x.reward_parts)
    fmt::print("  {:<24} {:>9.4f}  x {:.3g}{}{}\n", printable(part.name), part.value, part.weight,
               part.detail.empty() ? "" : "  ", printable(part.detail));
  if (!x.mask_reason.empty()) fmt::print("masked       {}\n", printable(x.mask_reason));
  if (x.is_greedy) fmt::print("greedy       its score is the baseline of its group\n");
  if (!x.metrics.empty()) fmt::print("metrics\n");
  for (const auto& [name, value] : x.metrics)
    fmt::print("  {:<40} {:>9.4g}\n", printable(name), value);
}

std::string cell(const std::vector<float>& column, size_t i) {
  return column.empty() ? "." : fmt::format("{:.4f}", column[i]);
}

void print_tokens(const proto::Trajectory& x) {
  Table table(
      {"AT", "TOKEN", "MASK", "LOGP", "REF_LOGP", "TEACHER_LOGP", "VALUE", "REWARD", "VERSION"});
  for (size_t i = 0; i < x.tokens.size(); ++i)
    table.add({fmt::to_string(i), fmt::to_string(x.tokens[i]),
               x.response_mask.empty() ? "." : fmt::to_string(x.response_mask[i]),
               cell(x.behavior_logp, i), cell(x.ref_logp, i), cell(x.teacher_logp, i),
               cell(x.values, i), cell(x.token_rewards, i),
               x.token_versions.empty() ? "." : fmt::to_string(x.token_versions[i])});
  fmt::print("\n{}", table.render());
}

}  // namespace

Expected<void> show(const ShowOptions& options) {
  COHORT_ASSIGN(proto::TrajectoryKey key, parse_key(options.key, options.kind));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  COHORT_ASSIGN(const stream::Record record, find_trajectory(reader, key, options.run));
  COHORT_ASSIGN(proto::Trajectory x, record.trajectory());
  print_head(record.info, x);
  for (size_t i = 0; i < x.turns.size(); ++i) {
    const proto::Turn& turn = x.turns[i];
    fmt::print("\nturn {}  tokens {}-{}  reward {:.3f}  {}{}\n", i, turn.response_begin,
               turn.response_end, turn.env_reward, turn.is_valid ? "valid" : "invalid",
               turn.is_effective ? ", effective" : "");
    if (turn.context_begin > 0)
      fmt::print("context from token {} on: asked anew\n", turn.context_begin);
    print_text(i == 0 ? "prompt" : "observation", turn.observation);
    print_text("response", turn.response);
  }
  if (options.with_tokens) print_tokens(x);
  return {};
}

}  // namespace cohort::traj
