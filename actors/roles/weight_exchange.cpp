#include "actors/roles/weight_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <set>
#include <utility>

#include "runtime/base/waits.hpp"

namespace cohort::actors {
namespace {

bool holds(const plan::ShardLayout& layout, CardId card) {
  return std::ranges::find(layout.ranks, card) != layout.ranks.end();
}

std::string key_of(const std::string& receiver, CardId card, uint64_t epoch) {
  return fmt::format("weights/{}/{}/{}", receiver, card.value, epoch);
}

std::vector<std::string> labels_of(const plan::ReshardPlan& plan, const std::string& receiver) {
  std::vector<std::string> labels;
  for (CardId card : plan.cards) {
    bool trains = holds(plan.from, card), receives = holds(plan.to, card);
    labels.push_back(fmt::format("card {} ({}{}{})", card.value, trains ? "actor_train" : "",
                                 trains && receives ? ", " : "", receives ? receiver : ""));
  }
  return labels;
}

}  // namespace

Expected<std::shared_ptr<WeightExchange>> WeightExchange::open(WeightExchangeOptions options) {
  std::shared_ptr<WeightExchange> seat(new WeightExchange(std::move(options)));
  const WeightExchangeOptions& o = seat->options_;
  seat->train_.is_needed = holds(o.plan->from, o.card);
  seat->receive_.is_needed = holds(o.plan->to, o.card);
  seat->epoch_ = o.epoch;
  seat->plan_ = o.plan;
  COHORT_TRY(seat->open_member());
  return seat;
}

Expected<void> WeightExchange::open_member() {
  const WeightExchangeOptions& o = options_;
  publish::MemberOptions member;
  member.plan = plan_;
  member.card = o.card;
  member.labels = labels_of(*plan_, o.receiver);
  member.from = member.to = o.dtype;
  member.timeout_ms = o.timeout_ms;
  // Set before begin() and not changed until the version has ended.
  member.source = [this](const publish::PartName& part) { return source_(part); };
  member.target = [this](const publish::PartName& part) { return target_(part); };
  COHORT_ASSIGN(auto port, o.hub       ? publish::open_inproc_port(o.hub)
                           : o.context ? publish::open_link_port({o.context.get(), o.link})
                                       : publish::open_shared_port());
  COHORT_ASSIGN(std::unique_ptr<publish::Member> opened,
                publish::Member::open(std::move(member), std::move(port)));
  member_ = std::move(opened);
  is_connected_ = false;
  return o.rendezvous->put(key_of(o.receiver, o.card, epoch_), member_->endpoint());
}

Expected<void> WeightExchange::reseat(uint64_t epoch, const std::vector<uint32_t>& absent) {
  std::lock_guard lock(mutex_);
  if (!aborted_.empty()) return Error{Errc::cancelled, aborted_};
  if (epoch == epoch_) return {};
  if (epoch < epoch_ || train_.is_in || receive_.is_in)
    return Error{Errc::protocol,
                 fmt::format("seat of card {} in the publish to {}: epoch {} is asked for in epoch "
                             "{}, {}",
                             options_.card.value, options_.receiver, epoch, epoch_,
                             train_.is_in || receive_.is_in ? "while a version is under way"
                                                            : "which is later")};
  std::set<CardId> gone;
  for (uint32_t card : absent) gone.insert({card});
  auto plan = options_.plan;
  if (!gone.empty()) {
    COHORT_ASSIGN(plan::ReshardPlan rest, plan::plan_without(*plan, gone));
    plan = std::make_shared<const plan::ReshardPlan>(std::move(rest));
  }
  // Nothing is under way, so that the old member calls nobody back while it closes.
  member_.reset();
  epoch_ = epoch;
  plan_ = std::move(plan);
  return open_member();
}

WeightExchange::~WeightExchange() { abort("it closes"); }

void WeightExchange::offer(uint64_t version, publish::Source source, publish::OnEnd on_end) {
  enter(train_, version, std::move(on_end), [&] { source_ = std::move(source); });
}

void WeightExchange::accept(uint64_t version, publish::Target target, publish::OnEnd on_end) {
  enter(receive_, version, std::move(on_end), [&] { target_ = std::move(target); });
}

void WeightExchange::enter(Side& side, uint64_t version, publish::OnEnd on_end,
                           const std::function<void()>& keep) {
  Expected<void> entered, started;
  {
    // begin() only wakes the member: an abort comes before it, and refuses, or finds it running.
    std::lock_guard lock(mutex_);
    bool is_waiting = train_.is_in || receive_.is_in;
    if (!aborted_.empty())
      entered = Error{Errc::cancelled, aborted_};
    else if (!side.is_needed || side.is_in || (is_waiting && version != version_))
      entered = Error{Errc::protocol,
                      fmt::format("publish of version {} to {} on card {}: version {} is under way",
                                  version, options_.receiver, options_.card.value, version_)};
    else {
      version_ = version;
      side.is_in = true;
      side.on_end = std::move(on_end);
      keep();
      if (train_.is_in == train_.is_needed && receive_.is_in == receive_.is_needed)
        started = start(version);
    }
  }
  if (!entered) return on_end(entered.error());
  if (!started) end(started.error());
}

Expected<void> WeightExchange::start(uint64_t version) {
  if (member_ == nullptr)
    return Error{Errc::closed, fmt::format("publish to {}: card {} has no seat", options_.receiver,
                                           options_.card.value)};
  if (!is_connected_) COHORT_TRY(connect());
  return member_->begin(version,
                        [this](const Expected<publish::PublishReport>& report) { end(report); });
}

// Every process has opened its seats before the run's first command, or has answered placement that
// it sits again.
Expected<void> WeightExchange::connect() {
  std::vector<std::string> endpoints;
  for (CardId card : plan_->cards) {
    COHORT_ASSIGN(auto endpoint, options_.rendezvous->get(key_of(options_.receiver, card, epoch_)));
    if (!endpoint)
      return Error{Errc::not_found, fmt::format("publish to {}: card {} has no seat in epoch {}",
                                                options_.receiver, card.value, epoch_)};
    endpoints.push_back(std::move(*endpoint));
  }
  COHORT_TRY(member_->connect(endpoints));
  is_connected_ = true;
  return {};
}

void WeightExchange::end(const Expected<publish::PublishReport>& report) {
  std::array<publish::OnEnd, 2> told;
  {
    std::lock_guard lock(mutex_);
    train_.is_in = receive_.is_in = false;
    told = {std::exchange(train_.on_end, {}), std::exchange(receive_.on_end, {})};
  }
  for (const publish::OnEnd& tell : told)
    if (tell) tell(report);
}

Expected<void> WeightExchange::commit(uint64_t version) {
  std::lock_guard lock(mutex_);
  if (member_ == nullptr)
    return Error{Errc::closed, fmt::format("publish to {}: card {} has no seat", options_.receiver,
                                           options_.card.value)};
  return member_->commit(version);
}

Expected<publish::PublishReport> wait_for(const std::function<void(publish::OnEnd)>& enter) {
  auto ended = std::make_shared<std::promise<Expected<publish::PublishReport>>>();
  auto report = ended->get_future();
  const Wait wait({WaitLevel::role, "a publish", "the weights of another card",
                   "the last byte, or the end of the publish"});
  enter([ended](Expected<publish::PublishReport> result) { ended->set_value(std::move(result)); });
  return report.get();
}

void WeightExchange::abort(const std::string& reason) {
  uint64_t version = 0;
  std::shared_ptr<publish::Member> member;
  {
    std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = reason;
    version = version_;
    member = member_;
  }
  if (member) member->abort(version, reason);
  // A side that waited for the other of its card was in no publish yet.
  end(Error{Errc::cancelled,
            fmt::format("publish of version {} to {}: {}", version, options_.receiver, reason)});
}

}  // namespace cohort::actors
