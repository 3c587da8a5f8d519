// TrainEngine: forward, backward and the optimizer step over the ranks of a group, AdamW where the
// optimizer rests, and log-probabilities.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/generate/work_team.hpp"
#include "runtime/compute/train/gradient_norm.hpp"
#include "runtime/compute/train/ordered_work.hpp"
#include "runtime/compute/train/trailing_hash.hpp"
#include "runtime/compute/train/train_step.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;
using State = TrainEngine::State;

template <class T>
void add_bytes(tensor::Checksum& sum, std::span<const T> values) {
  sum.update(std::as_bytes(values));
}

uint64_t fingerprint_of(std::span<const TrainSample> samples) {
  tensor::Checksum sum;
  for (const TrainSample& sample : samples) {
    add_bytes(sum, sample.tokens);
    add_bytes(sum, sample.response_mask);
    add_bytes(sum, sample.old_logp);
    add_bytes(sum, sample.advantages);
    add_bytes(sum, sample.ref_logp);
    add_bytes(sum, sample.weights);
    add_bytes(sum, sample.marks);
    const uint64_t size = sample.tokens.size();
    add_bytes(sum, std::span(&size, 1));
  }
  return sum.digest();
}

/// Adds everybody's numbers in micro-batch order.
Expected<void> gather_numbers(const State& s, const StepPlan& plan,
                              const std::vector<MicroNumbers>& mine, StepReport& report) {
  std::vector<size_t> sizes;
  for (size_t r = 0; r < plan.ranks; ++r) sizes.push_back(plan.own_count(r) * sizeof(MicroNumbers));
  COHORT_ASSIGN(auto all, s.gather_bytes(std::as_bytes(std::span(mine)), sizes));
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    MicroNumbers one;
    std::memcpy(&one, all[i % plan.ranks].data() + i / plan.ranks * sizeof one, sizeof one);
    report.loss += one.total;
    report.numbers.add(one.of_loss);
  }
  return {};
}

/// Threads of what reads and writes whole parameters. Small ones, and those of a device, have one.
uint32_t flat_threads(const State& s) {
  constexpr int64_t k_small = int64_t{1} << 22;  // [elements] done before threads have started
  if (s.math.has_device() || s.layout.total_elements < k_small) return 1;
  return static_cast<uint32_t>(std::max(1, s.options.threads));
}

/// Returns this rank's part of each tensor's gradient, in pieces that threads share.
std::vector<std::span<const float>> own_gradients(const State& s, bool is_shared) {
  constexpr int64_t k_piece = int64_t{1} << 18;  // [elements]
  const HeldBuffer grads = s.grads_buffer();
  std::vector<std::span<const float>> pieces;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const TensorPart part = s.zero.part(spec, s.rank());
    const int64_t most = is_shared ? k_piece : std::max<int64_t>(1, part.count());
    for (int64_t begin = part.begin; begin < part.end; begin += most)
      pieces.emplace_back(s.find_float(grads, spec, begin),
                          static_cast<size_t>(std::min(most, part.end - begin)));
  }
  return pieces;
}

/// Returns of(piece) for each.
template <class Result, class Of>
std::vector<Result> map_pieces(WorkTeam& team, std::span<const std::span<const float>> pieces,
                               Of of) {
  std::vector<Result> results(pieces.size());
  team.run(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end, uint32_t) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      results[i] = of(pieces[i]);
  });
  return results;
}

/// Returns the norm over all ranks, the same bits on each and for any cut (NORM-1); infinity if a
/// gradient is not finite.
Expected<double> global_norm(const State& s, WorkTeam& team) {
  const auto pieces = own_gradients(s, team.size() > 1);
  uint32_t largest = 0;
  for (const uint32_t one : map_pieces<uint32_t>(
           team, pieces, [&](auto values) { return s.math.largest_magnitude(values); }))
    largest = std::max(largest, one);
  COHORT_ASSIGN(const std::vector<uint32_t> magnitudes, s.gather_each(largest));
  largest = *std::max_element(magnitudes.begin(), magnitudes.end());
  if (largest >= k_not_finite) return double{INFINITY};
  SquareSum own, total;
  for (const SquareSum& one : map_pieces<SquareSum>(
           team, pieces, [&](auto values) { return s.math.sum_of_squares(values, largest); }))
    own += one;
  COHORT_ASSIGN(const std::vector<SquareSum> sums, s.gather_each(own));
  for (const SquareSum& other : sums) total += other;
  return norm_of(total, largest);
}

/// One exchange per step: each rank has summed its own micro-batches.
Expected<void> accumulate_per_card(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  const Tensor flat = s.compute_flat();
  auto work = [&](size_t round) -> Expected<MicroResult> {
    return run_micro_batch(in, s.weights(flat, true), in.plan.own(round));
  };
  auto commit = [&](size_t round, MicroResult&& result) {
    in.numbers[round] = result.numbers;
    for (const ZeroUnit& unit : s.zero.units()) in.exchange.add_own(unit, result.gradients);
  };
  OrderedWork<MicroResult> workers(s.options.threads, in.plan.own_count());
  mine = workers.run(work, commit);
  for (const ZeroUnit& unit : s.zero.units()) COHORT_TRY(in.exchange.sum_gradients(unit));
  return {};
}

/// Gathers whole tensors from everybody's parts, in place.
Expected<void> make_whole(const State& s, UnitExchange& exchange, const HeldBuffer& buffer) {
  if (s.ranks() == 1) return {};
  for (const ZeroUnit& unit : s.zero.units())
    COHORT_TRY(exchange.gather(unit, buffer,
                               buffer.data + static_cast<size_t>(unit.begin) * buffer.element));
  return {};
}

/// Bytes of the widest element that travels in a step.
size_t step_element(const State& s) {
  const bool has_f32 =
      s.stage() == 0 || s.options.zero.reduce == GradientReduce::per_card || !s.is_bf16();
  return has_f32 ? sizeof(float) : sizeof(uint16_t);
}

Expected<void> check_step(const State& s, std::span<const TrainSample> samples) {
  if (s.options.is_frozen)
    return Error{Errc::invalid_argument,
                 fmt::format("{} is frozen: it takes no step", s.options.role)};
  COHORT_TRY(s.require_on_card(
      {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer}, "step"));
  return validate(samples, s.options.model);
}

StepPlan plan_step(const State& s, std::span<const TrainSample> samples, size_t together) {
  StepPlan plan;
  plan.rows = input_rows(samples);
  plan.spans = plan_micro_batches(plan.rows, s.options.micro_batch_tokens, together);
  plan.rank = static_cast<size_t>(s.rank());
  plan.ranks = static_cast<size_t>(s.ranks());
  if (plan.ranks > 1) plan.fingerprint = fingerprint_of(samples);
  return plan;
}

/// Adds the gradients of all micro-batches. Returns an error of the group; what fails in this rank
/// alone goes to `mine`, and this rank goes on exchanging zeros (ZERO-5).
Expected<void> accumulate_whole(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  const Tensor flat = s.compute_flat();
  Expected<void> group;  // what the exchange says: commit() cannot return it
  std::atomic<bool> is_lost = false;
  size_t rounds_done = 0;
  auto add_round = [&](size_t round, const LeafGradients* gradients) {
    const std::vector<bool> adds = in.plan.adds(round);
    for (const ZeroUnit& unit : s.zero.units()) {
      if (group) group = in.exchange.add_gradients(unit, adds, gradients);
    }
    is_lost = !group;
    ++rounds_done;
  };
  auto work = [&](size_t round) -> Expected<MicroResult> {
    if (is_lost) return Error{Errc::closed, "the group is lost"};
    return run_micro_batch(in, s.weights(flat, true), in.plan.own(round));
  };
  auto commit = [&](size_t round, MicroResult&& result) {
    in.numbers[round] = result.numbers;
    add_round(round, &result.gradients);
  };
  OrderedWork<MicroResult> workers(s.options.threads, in.plan.own_count());
  mine = workers.run(work, commit);
  while (group && rounds_done < in.plan.rounds() && s.ranks() > 1) add_round(rounds_done, nullptr);
  return group;
}

Expected<void> accumulate(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  if (takes_turns(in)) {
    accumulate_in_turns(in, mine);
    return {};
  }
  s.math.zero(s.grads.data(), s.grads.size_bytes());
  if (s.is_by_unit()) return accumulate_by_unit(in, mine);
  if (s.experts.is_cut()) return accumulate_with_experts(in, mine);
  if (s.options.zero.reduce == GradientReduce::per_card && s.ranks() > 1)
    return accumulate_per_card(in, mine);
  return accumulate_whole(in, mine);
}

// -- the optimizer: on the card, on the host, or streamed between

constexpr int64_t k_host_piece = int64_t{1} << 18;   // [elements] one copy to the host and back
constexpr int64_t k_cache_piece = int64_t{1} << 15;  // [elements] a master that is still in L2

/// The arrays of one piece of a tensor, where they rest.
struct Piece {
  size_t spec = 0;
  int64_t begin = 0, count = 0;
  float *parameters = nullptr, *m = nullptr, *v = nullptr;
  const float* gradients = nullptr;
};

void run(const State& s, const Piece& at, const AdamwScale& scale) {
  s.math.adamw(
      {at.parameters, at.m, at.v, at.gradients, at.count, s.layout.specs[at.spec].is_decayed()},
      scale);
}

void copy(const State& s, float* to, const float* from, int64_t count) {
  s.math.copy(to, from, static_cast<size_t>(count) * sizeof(float));
}

/// The optimizer is on the host, and so is the arithmetic: gradients come down, and f32 parameters
/// with them, which go back.
void run_on_host(const State& s, const Piece& piece, const AdamwScale& scale,
                 std::vector<float>& staging) {
  staging.resize(static_cast<size_t>(2 * k_host_piece));
  Piece host = piece;
  float* gradients = staging.data();
  copy(s, gradients, piece.gradients, piece.count);
  host.gradients = gradients;
  const bool is_master_elsewhere = !s.has_cut_master();
  if (is_master_elsewhere) {
    host.parameters = staging.data() + k_host_piece;
    copy(s, host.parameters, piece.parameters, piece.count);
  }
  run(s, host, scale);
  if (is_master_elsewhere) copy(s, piece.parameters, host.parameters, piece.count);
}

/// The optimizer is on the host, the arithmetic on the card: moments, and a cut master, come up in
/// pieces and go back.
void run_swapped(const State& s, const Piece& piece, const AdamwScale& scale) {
  float* at = reinterpret_cast<float*>(s.swap.data());
  Piece card = piece;
  auto lift = [&](float*& array) {
    copy(s, at, array, piece.count);
    array = at;
    at += s.swap_elements();
  };
  lift(card.m);
  lift(card.v);
  if (s.has_cut_master()) lift(card.parameters);
  run(s, card, scale);
  copy(s, piece.m, card.m, piece.count);
  copy(s, piece.v, card.v, piece.count);
  if (s.has_cut_master()) copy(s, piece.parameters, card.parameters, piece.count);
}

/// Rounds the master of the piece into the bf16 parameters that products read.
void refresh(const State& s, const Piece& piece) {
  const HeldBuffer params = s.params_buffer();
  auto* to = reinterpret_cast<uint16_t*>(s.find(params, piece.spec, piece.begin));
  s.math.round(to, piece.parameters, piece.count);
}

/// Returns this rank's part of the parameters as the optimizer takes it.
std::vector<Piece> pieces_of(const State& s, bool is_shared) {
  const HeldBuffer master = s.master_buffer(), grads = s.grads_buffer();
  const HeldBuffer m = s.m_buffer(), v = s.v_buffer();
  std::vector<Piece> pieces;
  // parameters that rest on the host, updated on a device: a piece at a time
  const bool goes_up = s.math.has_device() && s.options.zero.offload_params;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const TensorPart part = s.held(m, spec);
    int64_t most = is_shared ? k_host_piece : part.count();
    if (s.is_bf16() && !s.math.has_device()) most = k_cache_piece;  // refresh() reads it again
    if (goes_up) most = k_host_piece;
    if (s.is_optimizer_hosted())
      most = s.options.zero.swap_optimizer ? static_cast<int64_t>(s.swap_elements()) : k_host_piece;
    for (int64_t begin = part.begin; begin < part.end; begin += most)
      pieces.push_back({spec, begin, std::min(most, part.end - begin),
                        s.find_float(master, spec, begin), s.find_float(m, spec, begin),
                        s.find_float(v, spec, begin), s.find_float(grads, spec, begin)});
  }
  return pieces;
}

/// Returns param_hash() in the making, if the pieces are all there is of a master on the host.
std::optional<TrailingHash> follow(const State& s, std::span<const Piece> pieces) {
  if (s.ranks() > 1 || s.math.has_device()) return std::nullopt;
  const std::byte* all = s.master_buffer().data;
  std::vector<size_t> ends;
  for (const Piece& piece : pieces) {
    const auto begin =
        static_cast<size_t>(s.layout.specs[piece.spec].offset + piece.begin) * sizeof(float);
    if (reinterpret_cast<const std::byte*>(piece.parameters) != all + begin) return std::nullopt;
    ends.push_back(begin + static_cast<size_t>(piece.count) * sizeof(float));
  }
  return std::optional<TrailingHash>(std::in_place,
                                     std::span(all, s.flat_elements() * sizeof(float)), ends);
}

/// AdamW on this rank's part, wherever it rests; bf16 parameters follow the master. Returns the
/// hash of all parameters if it is there.
std::optional<uint64_t> update_parameters(const State& s, const AdamwScale& scale, WorkTeam& team) {
  const bool is_hosted = s.is_optimizer_hosted();
  const std::vector<Piece> pieces = pieces_of(s, team.size() > 1);
  std::vector<float> staging;
  const auto update = [&](const Piece& piece) {
    if (!is_hosted)
      run(s, piece, scale);
    else if (s.options.zero.swap_optimizer)
      run_swapped(s, piece, scale);
    else
      run_on_host(s, piece, scale, staging);
    if (s.is_bf16()) refresh(s, piece);
  };
  if (is_hosted) {  // one staging buffer
    std::ranges::for_each(pieces, update);
    return std::nullopt;
  }
  std::optional<TrailingHash> hash = follow(s, pieces);
  team.run(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end, uint32_t) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      update(pieces[i]);
      if (hash) hash->finished(i);
    }
  });
  return hash ? std::optional(hash->digest()) : std::nullopt;
}

// -- log-probabilities: each rank computes its micro-batches; all get all of them

Expected<void> log_probs_whole(const State& s, std::span<const TrainSample> samples,
                               const StepPlan& plan, AdapterUse use, std::vector<Tensor>& out) {
  const Tensor flat = s.compute_flat();
  const PolicyWeights weights = s.weights(flat, false, use);
  auto work = [&](size_t round) -> Expected<Tensor> {
    use_single_threaded_math();
    at::NoGradGuard no_grad;
    const PackedBatch batch =
        to_device(pack(samples, plan.rows, plan.own(round)), s.torch_device());
    return policy_log_probs(weights, s.options.model, s.rope, batch, s.options.logits_max).logp;
  };
  auto commit = [&](size_t round, Tensor&& logp) { out[round] = logp.contiguous(); };
  OrderedWork<Tensor> workers(s.options.threads, plan.own_count());
  return workers.run(work, commit);
}

size_t response_count(std::span<const TrainSample> samples, const MicroSpan& span) {
  size_t count = 0;
  for (size_t i = span.begin; i < span.end; ++i)
    for (uint8_t mask : samples[i].response_mask) count += mask != 0 ? 1 : 0;
  return count;
}

}  // namespace

Lesson lesson_of(const TrainEngine::State& s, const PackedBatch& batch) {
  if (!s.teacher) return {};
  const TrainEngine::State& of = *s.teacher;
  return {teacher_rows(of.weights(of.compute_flat(), false), of.options.model, of.rope, batch),
          &s.divergence};
}

MicroResult run_micro_batch(const StepInput& in, const PolicyWeights& weights,
                            const MicroSpan& span) {
  const State& s = in.state;
  use_single_threaded_math();
  at::AutoGradMode grad_on(true);
  const PackedBatch batch = to_device(pack(in.samples, in.plan.rows, span), s.torch_device());
  const MicroOutputs out = policy_log_probs(weights, s.options.model, s.rope, batch,
                                            s.options.logits_max, lesson_of(s, batch));
  MicroLoss loss = in.loss(to_device(loss_columns(in.samples, span), s.torch_device()), out);
  torch::autograd::variable_list leaves;
  for (const auto& leaf : weights.leaves) leaves.push_back(leaf.tensor);
  MicroResult result;
  result.numbers = {loss.total.item<double>(), loss.numbers};
  result.gradients = LeafGradients(
      torch::autograd::grad({loss.total}, leaves, {}, false, false, true), weights.leaves);
  loss.total.reset();  // frees the graph on this thread
  return result;
}

Expected<StepReport> TrainEngine::step(std::span<const TrainSample> samples,
                                       const LossFactory& loss, double learning_rate,
                                       size_t together) try {
  const double begin = now_seconds();
  State& s = *state_;
  COHORT_CHECK(together > 0 && samples.size() % together == 0,
               "PACK-3: samples that belong together come together");
  Expected<void> mine = check_step(s, samples);
  StepPlan plan;
  if (mine) plan = plan_step(s, samples, together);
  if (mine && plan.spans.empty())
    mine = Error{Errc::invalid_argument, "step: no sample has a response token"};
  auto exchange = UnitExchange::create(s, step_element(s));
  if (mine && !exchange) mine = exchange.error();
  COHORT_TRY(s.agree(mine, plan.fingerprint, "step"));
  const StepCounts counts = count_responses(samples);
  const LossFunction function = loss(counts);
  std::vector<MicroNumbers> numbers(plan.own_count());
  const StepInput in{s, samples, plan, function, *exchange, numbers};
  auto at_step = [&](const Error& error) {
    return error.with_context(fmt::format("optimizer step {}", s.steps + 1));
  };
  if (auto done = accumulate(in, mine); !done) return at_step(done.error());
  if (auto done = s.agree(mine, s.steps, "step"); !done) return at_step(done.error());
  StepReport report;
  COHORT_TRY(gather_numbers(s, plan, numbers, report));
  WorkTeam team(flat_threads(s));
  COHORT_ASSIGN(const double norm, global_norm(s, team));
  if (!std::isfinite(norm)) {  // TRAIN-2, on every rank
    report.is_finite = false;
    return report;
  }
  if (s.stage() == 0) COHORT_TRY(make_whole(s, *exchange, s.grads_buffer()));
  report.param_hash = update_parameters(
      s, adamw_scale(s.options.optimizer, norm, learning_rate, s.steps + 1), team);
  if (s.stage() == 1 || s.stage() == 2) COHORT_TRY(make_whole(s, *exchange, s.params_buffer()));
  ++s.steps;
  report.grad_norm = norm;
  report.learning_rate = learning_rate;
  for (const TrainSample& sample : samples) report.tokens += sample.tokens.size();
  report.response_tokens = static_cast<uint64_t>(counts.tokens);
  report.micro_batches = plan.spans.size();
  report.seconds = now_seconds() - begin;
  return report;
} catch (const std::exception& e) {
  return failed("step", e);
}

Expected<void> TrainEngine::log_probs(std::span<const TrainSample> samples,
                                      std::vector<std::vector<float>>& out, AdapterUse use) try {
  State& s = *state_;
  Expected<void> mine = s.require_on_card({TrainObject::train_params}, "log_probs");
  if (mine) mine = validate(samples, s.options.model);
  StepPlan plan;
  if (mine) plan = plan_step(s, samples, 1);
  const size_t element = s.stage() == 3 ? s.compute_element() : 0;  // else nothing is gathered
  auto exchange = UnitExchange::create(s, element);
  if (mine && !exchange) mine = exchange.error();
  COHORT_TRY(s.agree(mine, plan.fingerprint, "log_probs"));
  out.resize(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) out[i].assign(samples[i].tokens.size(), 0.0f);
  std::vector<Tensor> own(plan.own_count());
  if (s.is_by_unit())
    COHORT_TRY(log_probs_by_unit(s, samples, plan, *exchange, own, mine));
  else if (s.experts.is_cut())
    COHORT_TRY(log_probs_with_experts(s, samples, plan, use, own, mine));
  else
    mine = log_probs_whole(s, samples, plan, use, own);
  COHORT_TRY(s.agree(mine, 0, "log_probs"));
  std::vector<size_t> sizes(plan.ranks);
  for (size_t i = 0; i < plan.spans.size(); ++i)
    sizes[i % plan.ranks] += response_count(samples, plan.spans[i]) * sizeof(float);
  std::vector<std::byte> bytes;
  for (const Tensor& on_card : own) {
    const Tensor logp = on_card.cpu();
    const auto* data = static_cast<const std::byte*>(logp.data_ptr());
    bytes.insert(bytes.end(), data, data + static_cast<size_t>(logp.numel()) * sizeof(float));
  }
  COHORT_ASSIGN(auto all, s.gather_bytes(bytes, sizes));
  std::vector<size_t> used(plan.ranks);
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const size_t from = i % plan.ranks, count = response_count(samples, plan.spans[i]);
    scatter_log_probs(samples, plan.spans[i],
                      at::from_blob(all[from].data() + used[from], {static_cast<int64_t>(count)},
                                    at::dtype(at::kFloat)),
                      out);
    used[from] += count * sizeof(float);
  }
  return {};
} catch (const std::exception& e) {
  return failed("log_probs", e);
}

}  // namespace cohort::compute
