#include "tools/traj/recompute/html_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/job/policy.hpp"
#include "runtime/observe/token_page.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/recompute/recorded_step.hpp"
#include "tools/traj/recompute/step_advantages.hpp"
#include "tools/traj/text_output.hpp"
#include "tools/traj/trajectory_page.hpp"

namespace cohort::traj {
namespace {

using observe::TokenPage;
using TokenizerPointer = std::shared_ptr<const tasks::Tokenizer>;

/// Why it is not there is a note of the page: a record is worth a look without its tokenizer.
Expected<TokenizerPointer> tokenizer_of(stream::Reader& reader, const std::string& run) {
  COHORT_ASSIGN(const bool is_foreign, is_imported(reader, run));
  if (is_foreign) return Error{Errc::not_found, "the run was imported without its tokenizer"};
  COHORT_ASSIGN(const config::RunConfig config, recorded_config(reader, run));
  COHORT_ASSIGN(const job::Policy policy, job::policy_of(config));
  return policy.tokenizer;
}

/// One per token, NaN where nothing was sampled.
Expected<std::vector<double>> advantages_of_key(const std::string& run,
                                                const proto::TrajectoryKey& key,
                                                std::vector<std::string>& notes) {
  COHORT_ASSIGN(const RecordedStep step, read_step({run, key.step, "", "", {}}));
  COHORT_ASSIGN(
      const StepAdvantages own,
      advantages_of({step.own, step.kl_coefficient(), nullptr, step.earlier}, step.batch()));
  for (std::string& part : missing_parts(step.own, own, false)) notes.push_back(std::move(part));
  const auto found = std::ranges::find(own.trajectories(), key, &proto::Trajectory::key);
  if (found == own.trajectories().end())
    return Error{Errc::not_found, "no update was given this trajectory: it has no advantage"};
  const auto place = static_cast<size_t>(found - own.trajectories().begin());
  const auto first = static_cast<size_t>(own.packed.cu_seqlens[place]);
  std::vector<double> values(found->tokens.size(), observe::k_not_measured);
  for (size_t i = 0; i < values.size(); ++i)
    if (found->response_mask[i] == 1) values[i] = double{own.packed.advantages[first + i]};
  return values;
}

/// An error of a config has a line for each of its faults.
std::string first_line(const Error& error) {
  return error.detail.substr(0, error.detail.find('\n'));
}

std::string file_of(const HtmlOptions& options, const proto::TrajectoryKey& key) {
  if (!options.file.empty()) return options.file;
  return fmt::format("{}-{}-{}-{}.html", proto::to_string(key.kind), key.step, key.group,
                     key.index);
}

}  // namespace

Expected<void> html(const HtmlOptions& options) {
  COHORT_ASSIGN(const proto::TrajectoryKey key, parse_key(options.key, options.kind));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  COHORT_ASSIGN(const stream::Record record, find_trajectory(reader, key, options.run));
  COHORT_ASSIGN(const proto::Trajectory x, record.trajectory());
  const auto tokenizer = tokenizer_of(reader, options.run);
  TokenPage page =
      coloured_of(record.info, x, tokenizer ? tokenizer->get() : nullptr, x.tokens.size());
  if (!tokenizer)
    page.notes.push_back("no texts of tokens, their ids instead: " + first_line(tokenizer.error()));
  if (key.kind == TrajectoryKind::train) {
    auto advantages = advantages_of_key(options.run, key, page.notes);
    if (advantages)
      page.advantages = std::move(*advantages);
    else
      page.notes.push_back("no advantages: " + first_line(advantages.error()));
  }
  const std::string file = file_of(options, key);
  COHORT_ASSIGN(TextOutput out, TextOutput::open(file));
  COHORT_TRY(out.write(observe::token_page(page)));
  COHORT_TRY(out.finish());
  for (const std::string& note : page.notes) fmt::print(stderr, "note: {}\n", note);
  if (!out.is_stdout()) fmt::print("{}\n", file);
  return {};
}

}  // namespace cohort::traj
