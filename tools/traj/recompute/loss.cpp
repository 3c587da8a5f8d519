#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/roles/loss_columns.hpp"
#include "actors/roles/policy_loss_bridge.hpp"
#include "runtime/catalog/catalog.hpp"
#include "tools/traj/recompute/recompute_commands.hpp"
#include "tools/traj/recompute/step_advantages.hpp"
#include "tools/traj/table.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<float>>;

/// One optimizer batch of the step, in the order of the update.
struct BatchLoss {
  std::vector<actors::ContextRange> places;  // of its samples in the step's trajectories
  std::vector<compute::TrainSample> samples;
  Rows logp;                               // of the current policy
  std::vector<std::vector<uint8_t>> mask;  // that the loss has seen
  actors::TokenLosses loss;
};

/// A step's losses under the asked config.
struct StepLoss {
  StepAdvantages step;
  control::UpdateReport report;  // numbers of the correction
  std::vector<BatchLoss> batches;
  uint64_t empty_batches = 0;  // without a token that trains
};

std::vector<float> part_of(const std::vector<float>& row, const proto::TokenRange& tokens) {
  return {row.begin() + static_cast<ptrdiff_t>(tokens.begin),
          row.begin() + static_cast<ptrdiff_t>(tokens.end)};
}

struct Columns {
  std::optional<LogprobRows> old, current;

  /// The current policy's row of a sample: the one that was given, else the old policy's.
  std::vector<float> logp_of(const proto::TrajectoryKey& key, const proto::TokenRange& tokens,
                             const compute::TrainSample& sample) const {
    return current ? part_of(current->logp.at(key), tokens)
                   : std::vector<float>(sample.old_logp.begin(), sample.old_logp.end());
  }
};

std::optional<BatchLoss> loss_of_batch(const config::RunConfig& config, const StepAdvantages& step,
                                       std::pair<size_t, size_t> range, const Columns& columns,
                                       const Rng& rng) {
  BatchLoss batch;
  batch.samples = actors::policy_samples(step.trajectories(), step.packed, range);
  batch.places = actors::trained_contexts(step.trajectories(), step.packed, range);
  Rows entropy;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const auto& [place, tokens] = batch.places[i];
    const proto::TrajectoryKey& key = step.trajectories()[place].key;
    batch.logp.push_back(columns.logp_of(key, tokens, batch.samples[i]));
    if (columns.current && !columns.current->entropy.empty())
      entropy.push_back(part_of(columns.current->entropy.at(key), tokens));
  }
  actors::FirstPass first_pass(config);
  if (first_pass.is_needed() && actors::has_response(batch.samples))
    first_pass.apply(batch.logp, batch.samples, rng);
  if (!actors::has_response(batch.samples)) return std::nullopt;
  batch.loss = actors::policy_loss_of(config, {batch.samples, batch.logp, entropy});
  for (compute::TrainSample& sample : batch.samples) {
    batch.mask.emplace_back(sample.response_mask.begin(), sample.response_mask.end());
    sample.marks = {};  // these two point into first_pass
    sample.response_mask = {};
  }
  return batch;
}

Expected<StepLoss> loss_of_step(const RecordedStep& recorded, const Columns& columns) {
  const config::RunConfig& config = recorded.asked;
  StepLoss found;
  const AdvantageSources sources{config, recorded.kl_coefficient(),
                                 columns.old ? &*columns.old : nullptr, recorded.earlier};
  COHORT_ASSIGN(found.step, advantages_of(sources, recorded.batch()));
  const auto size = static_cast<size_t>(config.derived.optimizer_batch);
  const auto ranges = found.step.left->optimizer_batches(size);
  actors::correct_batch(config, found.step.trajectories(), found.step.packed, found.report);
  actors::weigh_lengths(config, found.step.trajectories(), ranges, found.step.packed);
  actors::mark_trajectories(config, found.step.trajectories(), found.step.packed);
  const Rng rng = actors::picks_rng(config);
  // Optimizer steps before this one, as long as every step has had as many.
  uint64_t steps = (recorded.trajectories.front().key.step - 1) *
                   static_cast<uint64_t>(config.ppo_epochs) * ranges.size();
  for (const auto& range : ranges) {
    auto batch = loss_of_batch(config, found.step, range, columns, rng.fork(steps++));
    if (batch)
      found.batches.push_back(std::move(*batch));
    else
      ++found.empty_batches;
  }
  return found;
}

/// A number of all optimizer batches, as the step's row has it: their mean, or the greatest.
double reduced(const StepLoss& found, const Number& number) {
  double sum = 0, greatest = number.value;
  for (const BatchLoss& batch : found.batches) {
    sum += batch.loss.numbers.at(number.name());
    greatest = std::max(greatest, batch.loss.numbers.at(number.name()));
  }
  return number.reduce == Reduce::max ? greatest : sum / static_cast<double>(found.batches.size());
}

void print_table(const StepLoss& found) {
  constexpr size_t k_columns_max = 8;
  const size_t shown = std::min(found.batches.size(), k_columns_max);
  std::vector<std::string> header{"NUMBER", "STEP"};
  for (size_t i = 0; i < shown; ++i) header.push_back(fmt::format("BATCH {}", i));
  Table table(std::move(header));
  const auto text = [](double x) { return fmt::format("{:.6g}", x); };
  std::vector<std::string> totals{"loss", ""};
  double total = 0;
  for (const BatchLoss& batch : found.batches) total += batch.loss.total;
  totals[1] = text(total / std::max(1.0, static_cast<double>(found.batches.size())));
  for (size_t i = 0; i < shown; ++i) totals.push_back(text(found.batches[i].loss.total));
  table.add(std::move(totals));
  if (!found.batches.empty())
    for (const Number& number : found.batches.front().loss.numbers.all()) {
      std::vector<std::string> row{std::string(number.name()), text(reduced(found, number))};
      for (size_t i = 0; i < shown; ++i)
        row.push_back(text(found.batches[i].loss.numbers.at(number.name())));
      table.add(std::move(row));
    }
  for (const auto& [name, value] : found.report.metrics) {
    std::vector<std::string> row{name, text(value)};
    row.resize(2 + shown, ".");
    table.add(std::move(row));
  }
  fmt::print("{}", table.render());
}

void print_trajectories(const StepLoss& found) {
  for (size_t b = 0; b < found.batches.size(); ++b) {
    const BatchLoss& batch = found.batches[b];
    for (size_t i = 0; i < batch.samples.size();) {
      const size_t place = batch.places[i].place;
      const proto::TrajectoryKey& key = found.step.trajectories()[place].key;
      double loss = 0, gradient = 0;
      int64_t tokens = 0;
      for (; i < batch.samples.size() && batch.places[i].place == place; ++i) {
        for (float x : batch.loss.losses[i]) loss += static_cast<double>(x);
        for (float x : batch.loss.gradients[i]) gradient += std::abs(static_cast<double>(x));
        tokens += std::ranges::count(batch.mask[i], uint8_t{1});
      }
      const Json line{
          {"step", key.step}, {"group", key.group}, {"index", key.index},          {"batch", b},
          {"tokens", tokens}, {"loss_sum", loss},   {"gradient_abs_sum", gradient}};
      fmt::print("{}\n", line.dump());
    }
  }
}

void print_sample_tokens(const StepLoss& found, const BatchLoss& batch, size_t b, size_t i) {
  const auto& [place, tokens] = batch.places[i];
  const proto::Trajectory& t = found.step.trajectories()[place];
  const compute::TrainSample& sample = batch.samples[i];
  const auto first = static_cast<size_t>(found.step.packed.cu_seqlens[place]);
  for (size_t in_trajectory = tokens.begin; in_trajectory < tokens.end; ++in_trajectory) {
    if (t.response_mask[in_trajectory] == 0) continue;
    const size_t at = in_trajectory - tokens.begin;
    Json line{{"step", t.key.step},
              {"group", t.key.group},
              {"index", t.key.index},
              {"batch", b},
              {"at", in_trajectory},
              {"token", t.tokens[in_trajectory]},
              {"trains", batch.mask[i][at] != 0},
              {"advantage", sample.advantages[at]},
              {"logp", batch.logp[i][at]},
              {"old_logp", sample.old_logp[at]},
              {"behavior_logp", t.behavior_logp[in_trajectory]}};
    if (!sample.ref_logp.empty()) line["ref_logp"] = sample.ref_logp[at];
    if (!found.step.packed.weights.empty())
      line["weight"] = found.step.packed.weights[first + in_trajectory];
    line["loss"] = batch.loss.losses[i][at];
    line["gradient"] = batch.loss.gradients[i][at];
    fmt::print("{}\n", line.dump());
  }
}

void print_summary(const RecordedStep& recorded, const StepLoss& found,
                   const LossOptions& options) {
  const auto name = [](const config::RunConfig& c) {
    return catalog::to_string(actors::policy_loss_kind(c));
  };
  fmt::print(stderr, "{} step {}: loss {} (the run's own: {}), {} optimizer batches{}\n",
             options.question.run, options.question.step, name(recorded.asked), name(recorded.own),
             found.batches.size(),
             found.empty_batches == 0
                 ? ""
                 : fmt::format(", and {} without a token that trains", found.empty_batches));
  fmt::print(stderr, "log-probs of the old policy: {}; of the current one: {}\n",
             options.old_logprobs.empty() ? "those recorded at generation" : options.old_logprobs,
             options.current_logprobs.empty() ? "the old policy's, so that every ratio is 1"
                                              : options.current_logprobs);
  if (recorded.asked.entropy_loss_coef != 0 && options.current_logprobs.empty())
    fmt::print(stderr, "note: the term of the entropy is left out: nothing here has one\n");
  for (const std::string& part :
       missing_parts(recorded.asked, found.step, !options.old_logprobs.empty()))
    fmt::print(stderr, "note: {}\n", part);
}

}  // namespace

Expected<void> loss(const LossOptions& options) {
  COHORT_ASSIGN(const RecordedStep recorded, read_step(options.question));
  Columns columns;
  if (!options.old_logprobs.empty()) {
    COHORT_ASSIGN(columns.old, read_logprobs(options.old_logprobs, recorded.trajectories));
  }
  if (!options.current_logprobs.empty()) {
    COHORT_ASSIGN(columns.current, read_logprobs(options.current_logprobs, recorded.trajectories));
  }
  COHORT_ASSIGN(const StepLoss found, loss_of_step(recorded, columns));
  if (options.output == Output::table) print_table(found);
  if (options.output == Output::trajectories) print_trajectories(found);
  if (options.output == Output::tokens)
    for (size_t b = 0; b < found.batches.size(); ++b)
      for (size_t i = 0; i < found.batches[b].samples.size(); ++i)
        print_sample_tokens(found, found.batches[b], b, i);
  print_summary(recorded, found, options);
  return {};
}

}  // namespace cohort::traj
