#include "actors/roles/train_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/control/request.hpp"
#include "runtime/proto/codec.hpp"

namespace cohort::actors {

using namespace control;

namespace {

uint64_t hash_in(const UpdateReport& report) { return report.param_hash; }
uint64_t hash_in(const CheckpointReport& report) { return report.param_hash; }
void take_slowest(UpdateReport& report, const UpdateReport& other) {
  report.compute_seconds = std::max(report.compute_seconds, other.compute_seconds);
}
void take_slowest(CheckpointReport& report, const CheckpointReport& other) {
  report.seconds = std::max(report.seconds, other.seconds);
}
/// What the critic's first rank says, beside the policy's.
void add_critic(UpdateReport& report, const UpdateReport& critic) {
  report.metrics.insert(report.metrics.end(), critic.metrics.begin(), critic.metrics.end());
  report.histograms.insert(report.histograms.end(), critic.histograms.begin(),
                           critic.histograms.end());
  report.critic_hash = critic.param_hash;
}
void add_critic(CheckpointReport&, const CheckpointReport&) {}

/// What some ranks are asked at once. The first error is the answer of the promise; without one
/// `then` gets the first rank's report, if all ranks of a role have the same parameters.
template <class Report>
struct Agreement {
  std::string what;
  std::vector<std::optional<Report>> reports = {};  // by rank
  size_t missing = 0;
  bool is_over = false;
  caf::typed_response_promise<Report> promise = {};
  std::function<void(Report)> then = {};
};

/// An update on its way through its stages.
struct Update {
  UpdateRequest order;
  TrajectoryBatch batch;
  caf::typed_response_promise<UpdateReport> promise;
  std::map<TrajectoryKey, std::vector<float>> values = {};  // that have come
  std::optional<UpdateReport> valued = {};                  // the critic's answer to that stage
  std::optional<UpdateReport> critic = {};                  // to its update, where it comes first
};

bool is_trained_on(const proto::Trajectory& t) { return t.mask_reason.empty(); }

/// Puts the values into the batch. Returns Errc::protocol naming what does not fit.
Expected<void> take_values(Update& now) {
  for (proto::Trajectory& t : *now.batch) {
    if (!is_trained_on(t)) continue;
    auto values = now.values.extract(t.key);
    if (values.empty() || values.mapped().size() != t.tokens.size())
      return Error{Errc::protocol,
                   fmt::format("critic: {} values for the {} tokens of step {}, group {}, index {}",
                               values.empty() ? 0 : values.mapped().size(), t.tokens.size(),
                               t.key.step, t.key.group, t.key.index)};
    t.values = std::move(values.mapped());
  }
  return {};
}

class Ranks final : public TrainRanks {
 public:
  Ranks(TrainerActor::pointer self, TrainRanksOptions options)
      : self_(self), options_(std::move(options)) {
    for (size_t rank = 0; rank < options_.ranks.size(); ++rank)
      (options_.ranks[rank].role == Role::critic ? critic_ : policy_).push_back(rank);
  }
  Expected<void> open_links() {
    for (const TrainRank& rank : options_.ranks) {
      batches_.emplace_back();
      if (rank.worker) continue;
      auto lost = [fail = options_.fail, role = std::string(to_string(rank.role)),
                   label = rank.batches.name](const Error& error) {
        fail(failure_of_link(role, label, error));
      };
      COHORT_ASSIGN(batches_.back(),
                    transport::Sender::open(*options_.context, rank.batches, std::move(lost)));
    }
    return {};
  }

  caf::result<UpdateReport> update(const UpdateRequest& request, TrajectoryBatch batch) override {
    auto now = std::make_shared<Update>(
        Update{request, std::move(batch), self_->make_response_promise<UpdateReport>()});
    if (critic_.empty() || request.kind != TrajectoryKind::train)
      run(policy_, now, [now](UpdateReport report) { now->promise.deliver(std::move(report)); });
    else
      ask_values(now);
    return now->promise;
  }

  void on_values(std::vector<proto::Trajectory> valued) override {
    if (!now_)
      return options_.fail({"critic", "values", "FLOW-1: values that no update waits for"});
    for (proto::Trajectory& t : valued) now_->values[t.key] = std::move(t.values);
    maybe_learn();
  }

  void save(const CheckpointRequest& request, CheckpointPromise promise) override {
    const std::string what = fmt::format("checkpoint of step {}", request.step);
    auto save_policy = [this, what, promise, request] {
      ask_all(policy_, what, promise, deliver_to(promise), save_atom_v, request);
    };
    if (critic_.empty()) return save_policy();
    ask_all(
        critic_, what, promise, [save_policy](const CheckpointReport&) { save_policy(); },
        save_atom_v, request);
  }
  void load(const CheckpointRequest& request, CheckpointPromise promise) override {
    ask_all(all(), fmt::format("load of {}", request.folder), promise, deliver_to(promise),
            load_atom_v, request);
  }

 private:
  using Indices = std::vector<size_t>;  // of ranks, rising

  static std::function<void(CheckpointReport)> deliver_to(CheckpointPromise promise) {
    return [promise](CheckpointReport report) mutable { promise.deliver(std::move(report)); };
  }
  Indices all() const {
    Indices indices = policy_;
    indices.insert(indices.end(), critic_.begin(), critic_.end());
    return indices;
  }
  bool shares_cards() const {
    return std::ranges::any_of(critic_, [&](size_t rank) {
      return std::ranges::any_of(policy_, [&](size_t other) {
        return options_.ranks[other].card == options_.ranks[rank].card;
      });
    });
  }

  // -- the stages of an update with a critic

  void ask_values(const std::shared_ptr<Update>& now) {
    now_ = now;
    UpdateRequest order = now->order;
    order.stage = UpdateStage::values;
    send(critic_, order, now->batch, now, [this, now](UpdateReport report) {
      now->valued = std::move(report);
      maybe_learn();
    });
  }
  // Until every rank has answered, those of this process read the batch.
  void maybe_learn() {
    if (!now_ || !now_->valued) return;
    const auto wanted = std::ranges::count_if(*now_->batch, is_trained_on);
    if (std::ssize(now_->values) < wanted) return;
    auto now = std::exchange(now_, nullptr);
    if (auto taken = take_values(*now); !taken) {
      now->promise.deliver(to_caf(taken.error()));
      return;
    }
    options_.record(now->batch, [this, now] { learn(now); });
  }
  void learn(const std::shared_ptr<Update>& now) {
    auto over = [now](UpdateReport report) {
      if (now->critic) {
        add_critic(report, *now->critic);
        report.compute_seconds += now->critic->compute_seconds;
      }
      report.compute_seconds += now->valued->compute_seconds;
      report.metrics.emplace_back("time/values_s", now->valued->compute_seconds);
      now->promise.deliver(std::move(report));
    };
    if (!shares_cards()) return run(all(), now, over);
    run(critic_, now, [this, now, over](UpdateReport report) {
      now->critic = std::move(report);
      run(policy_, now, over);
    });
  }
  /// The update itself, on some ranks. A critic has the batch.
  template <class Then>
  void run(const Indices& ranks, const std::shared_ptr<Update>& now, Then then) {
    send(ranks, now->order, now->batch, now, then);
  }

  template <class Then>
  void send(const Indices& ranks, const UpdateRequest& request, const TrajectoryBatch& batch,
            const std::shared_ptr<Update>& now, Then then) {
    const auto nothing = std::make_shared<std::vector<proto::Trajectory>>();
    auto agreed = agreement<UpdateReport>(ranks, fmt::format("update of step {}", request.step),
                                          now->promise, std::move(then));
    for (size_t rank : ranks) {
      const bool has_batch =
          options_.ranks[rank].role == Role::critic && request.stage == UpdateStage::update;
      const TrajectoryBatch& its = has_batch ? nothing : batch;
      UpdateRequest order = request;
      order.trajectories = its->size();
      if (auto sent = send_batch(rank, *its); !sent) return refuse(agreed, to_caf(sent.error()));
      if (options_.ranks[rank].worker)
        ask(rank, options_.ranks[rank].worker, agreed, update_atom_v, order, its);
      else
        ask(rank, options_.ranks[rank].remote, agreed, update_atom_v, order);
    }
  }

  // -- asking ranks

  template <class Report, class Then>
  std::shared_ptr<Agreement<Report>> agreement(const Indices& ranks, std::string what,
                                               caf::typed_response_promise<Report> promise,
                                               Then then) {
    auto result = std::make_shared<Agreement<Report>>();
    result->what = std::move(what);
    result->reports.resize(options_.ranks.size());
    result->missing = ranks.size();
    result->promise = std::move(promise);
    result->then = std::move(then);
    return result;
  }
  template <class Then, class Atom>
  void ask_all(const Indices& ranks, const std::string& what,
               caf::typed_response_promise<CheckpointReport> promise, Then then, Atom atom,
               const CheckpointRequest& request) {
    auto agreed = agreement<CheckpointReport>(ranks, what, std::move(promise), std::move(then));
    for (size_t rank : ranks) {
      const TrainRank& to = options_.ranks[rank];
      if (to.worker)
        ask(rank, to.worker, agreed, atom, request);
      else
        ask(rank, to.remote, agreed, atom, request);
    }
  }
  template <class Handle, class Report, class... Args>
  void ask(size_t rank, const Handle& handle, const std::shared_ptr<Agreement<Report>>& agreed,
           const Args&... args) {
    send_request(
        self_, handle, std::chrono::milliseconds(options_.compute_timeout_ms),
        [this, rank, agreed](const Report& report) { on_report(rank, report, agreed); },
        [agreed](caf::error& e) { refuse(agreed, std::move(e)); }, args...);
  }
  template <class Report>
  static void refuse(const std::shared_ptr<Agreement<Report>>& agreed, caf::error error) {
    if (std::exchange(agreed->is_over, true)) return;
    agreed->promise.deliver(std::move(error));
  }
  template <class Report>
  void on_report(size_t rank, const Report& report,
                 const std::shared_ptr<Agreement<Report>>& agreed) {
    agreed->reports[rank] = report;
    if (--agreed->missing > 0 || agreed->is_over) return;
    agreed->is_over = true;
    std::optional<Report> first;
    size_t lead = 0;  // of the rank's role
    for (size_t i = 0; i < agreed->reports.size(); ++i) {
      const auto& each = agreed->reports[i];
      if (!each) continue;
      if (!first || options_.ranks[i].role != options_.ranks[lead].role) {
        lead = i;
        if (first)
          add_critic(*first, *each);
        else
          first = *each;
      }
      const uint64_t hash = hash_in(*agreed->reports[lead]);
      if (hash_in(*each) != hash) {
        agreed->promise.deliver(
            to_caf({Errc::internal,
                    fmt::format("{}: rank {} (card {}) has parameters {:016x}, rank {} {:016x}",
                                agreed->what, i, options_.ranks[i].card.value, hash_in(*each), lead,
                                hash)}));
        return;
      }
      take_slowest(*first, *each);
    }
    agreed->then(std::move(*first));
  }
  // The link's queue holds a step (RoleSpawner::link), so nothing is left to be sent again.
  Expected<void> send_batch(size_t rank, const std::vector<proto::Trajectory>& batch) {
    if (batches_[rank] == nullptr) return {};
    for (size_t first = 0; first < batch.size(); first += k_frame_trajectories) {
      size_t count = std::min(k_frame_trajectories, batch.size() - first);
      proto::Encoded encoded = proto::encode_batch(std::span(batch).subspan(first, count));
      auto sent = batches_[rank]->send(
          {k_message_trajectories, std::move(encoded.header), encoded.columns});
      if (!sent) return sent.error().with_context(options_.ranks[rank].batches.name);
    }
    return {};
  }

  TrainerActor::pointer self_;
  TrainRanksOptions options_;
  Indices policy_, critic_;
  std::vector<std::unique_ptr<transport::Sender>> batches_;  // by rank; null: in this process
  std::shared_ptr<Update> now_;                              // waits for values
};

}  // namespace

Expected<std::unique_ptr<TrainRanks>> TrainRanks::open(TrainerActor::pointer self,
                                                       TrainRanksOptions options) {
  auto ranks = std::make_unique<Ranks>(self, std::move(options));
  COHORT_TRY(ranks->open_links());
  return std::unique_ptr<TrainRanks>(std::move(ranks));
}

}  // namespace cohort::actors
