#include "runtime/publish/group_member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/publish/copy.hpp"
#include "runtime/publish/program.hpp"
#include "runtime/publish/session.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::publish {
namespace {

using plan::ReshardTransfer;

/// What every card tells every other: before the first exchange, and after the last.
struct Word {
  uint64_t version = 0, plan = 0;
  uint64_t bytes = 0, sum = 0;  // after: of what went to the card that reads it
  uint64_t errc = 0;            // of the teller, with its reason
  std::array<char, 216> reason{};
};
static_assert(sizeof(Word) == 256);

/// What one transfer adds to a sum, whatever the order.
uint64_t transfer_sum(uint32_t transfer, uint64_t checksum) {
  return mix64(checksum + mix64(uint64_t{transfer} << 32));
}

struct Tally {
  uint64_t bytes = 0, sum = 0;
};

/// All that moves between cards at one time. The same list of steps at every card.
struct Step {
  uint32_t round = 0;
  uint16_t hop = 0;
  std::vector<std::pair<uint32_t, const Outgoing*>> sends;  // by card, then the plan's order
  std::vector<std::pair<uint32_t, uint32_t>> receives;      // card, index of Program::receives
};

}  // namespace

class GroupMember::Impl {
 public:
  Impl(MemberOptions options, AllToAll exchange)
      : options_(std::move(options)),
        exchange_(std::move(exchange)),
        plan_(options_.plan),
        copies_(*plan_),
        before_(plan_->model, plan_->from),
        after_(plan_->model, plan_->to),
        card_(static_cast<uint32_t>(std::ranges::lower_bound(plan_->cards, options_.card) -
                                    plan_->cards.begin())),
        program_(make_program(copies_, card_)),
        source_(before_, options_.card),
        target_(after_, options_.card),
        widen_(tensor::size_of(options_.from) / tensor::size_of(options_.to)) {
    list_steps();
  }

  Expected<void> check() const {
    if ((!options_.source && !source_.parts().empty()) ||
        (!options_.target && !target_.parts().empty()))
      return Error{Errc::invalid_argument,
                   fmt::format("publish: {} needs a source for what it trains and a target for "
                               "what it generates with",
                               label(card_))};
    return {};
  }
  Expected<PublishReport> publish(uint64_t version);
  Expected<void> commit(uint64_t version) {
    if (served_ == version) return {};
    if (arrived_ != version)
      return Error{Errc::protocol,
                   fmt::format("commit of version {}: it has not arrived at {} (PUBLISH-2)",
                               version, label(card_))};
    served_ = version;
    arrived_.reset();
    return {};
  }
  std::optional<uint64_t> served() const { return served_; }
  uint64_t shard_checksum() const { return target_.checksum(); }

 private:
  void list_steps();
  Expected<void> prepare(uint64_t version);
  Expected<void> agree(uint64_t version, const Expected<void>& mine, const std::vector<Tally>& sent,
                       const std::vector<Tally>& received);
  void copy_own();
  Expected<void> run(const Step& step);
  void pack(const Outgoing& out, std::span<std::byte> packed) const;
  void unpack(uint32_t receive, uint32_t from, std::span<const std::byte> packed);
  std::string label(uint32_t card) const {
    return card < options_.labels.size() ? options_.labels[card]
                                         : fmt::format("card {}", plan_->cards[card].value);
  }
  const ReshardTransfer& transfer(uint32_t index) const { return plan_->transfers[index]; }
  uint32_t family(const ReshardTransfer& x) const { return plan_->pieces[x.piece].family; }
  void note_staging(uint64_t bytes) {
    report_.staging_peak = std::max(report_.staging_peak, bytes + staged_bytes_);
  }

  const MemberOptions options_;
  const AllToAll exchange_;
  const std::shared_ptr<const plan::ReshardPlan> plan_;
  const plan::ReshardCopies copies_;
  const plan::Shards before_, after_;
  const uint32_t card_;  // index of plan_->cards
  const Program program_;
  PartTable source_, target_;
  const uint64_t widen_;
  std::vector<Step> steps_;
  std::optional<uint64_t> newest_, arrived_, served_;

  // of the version under way
  PublishReport report_;
  std::vector<Tally> sent_, received_;                 // by card; own: what it keeps
  std::map<uint32_t, std::vector<std::byte>> staged_;  // by index of Program::receives
  uint64_t staged_bytes_ = 0;
};

void GroupMember::Impl::list_steps() {
  for (const ReshardTransfer& x : plan_->transfers)
    if (x.from != x.to &&
        (steps_.empty() || steps_.back().round != x.round || steps_.back().hop != x.hop))
      steps_.push_back({x.round, x.hop, {}, {}});
  auto step_of = [&](uint32_t index) -> Step& {
    const ReshardTransfer& x = transfer(index);
    return *std::ranges::find_if(
        steps_, [&](const Step& s) { return s.round == x.round && s.hop == x.hop; });
  };
  for (const Destination& to : program_.destinations)
    for (const Outgoing& out : to.sends) step_of(out.transfer).sends.emplace_back(to.card, &out);
  for (const Sender& from : program_.senders)
    for (uint32_t receive : from.receives)
      step_of(program_.receives[receive].transfer).receives.emplace_back(from.card, receive);
}

Expected<PublishReport> GroupMember::Impl::publish(uint64_t version) {
  const double start = now_seconds();
  report_ = {};
  report_.version = version;
  report_.received_by_step.assign(plan_->steps.size(), 0);
  sent_.assign(plan_->cards.size(), {});
  received_ = sent_;
  staged_.clear();
  staged_bytes_ = 0;
  auto ready = prepare(version);
  if (ready) newest_ = version;
  const std::vector<Tally> nothing(plan_->cards.size());
  COHORT_TRY(agree(version, ready, nothing, nothing));
  copy_own();
  for (const Step& step : steps_) COHORT_TRY(run(step));
  COHORT_TRY(agree(version, {}, sent_, received_));
  arrived_ = version;
  for (uint32_t card = 0; card < sent_.size(); ++card) {
    report_.sum += received_[card].sum;
    if (sent_[card].bytes > 0)
      report_.sent_to.push_back({plan_->cards[card], sent_[card].bytes, sent_[card].sum});
  }
  report_.seconds = now_seconds() - start;
  return report_;
}

Expected<void> GroupMember::Impl::prepare(uint64_t version) {
  if (newest_ && version <= *newest_)
    return Error{Errc::invalid_argument,
                 fmt::format("version {} was begun before (PUBLISH-2)", *newest_)};
  arrived_.reset();
  if (!source_.parts().empty()) COHORT_TRY(source_.resolve(options_.source, widen_));
  if (!target_.parts().empty()) COHORT_TRY(target_.resolve(options_.target));
  return {};
}

/// Two exchanges: what each has sent to each, then what each makes of it. The first card that has
/// something to complain of is everybody's error.
Expected<void> GroupMember::Impl::agree(uint64_t version, const Expected<void>& mine,
                                        const std::vector<Tally>& sent,
                                        const std::vector<Tally>& received) {
  const size_t cards = plan_->cards.size();
  std::vector<Word> out(cards), in(cards);
  auto swap_words = [&]() -> Expected<void> {
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (size_t i = 0; i < cards; ++i) {
      from.push_back(std::as_bytes(std::span(&out[i], 1)));
      to.push_back(std::as_writable_bytes(std::span(&in[i], 1)));
    }
    auto done = exchange_(from, to);
    if (done) return {};
    return done.error().with_context(fmt::format("publish of version {}", version));
  };
  for (size_t i = 0; i < cards; ++i)
    out[i] = {version, program_.fingerprint, sent[i].bytes, sent[i].sum, 0, {}};
  COHORT_TRY(swap_words());
  Expected<void> verdict = mine;
  for (uint32_t i = 0; i < cards && verdict; ++i) {
    if (in[i].version != version || in[i].plan != program_.fingerprint)
      verdict = Error{Errc::invalid_argument,
                      fmt::format("{} publishes version {} by plan {:016x}, {} version {} by "
                                  "{:016x}: all must make the same",
                                  label(i), in[i].version, in[i].plan, label(card_), version,
                                  program_.fingerprint)};
    else if (in[i].bytes != received[i].bytes || in[i].sum != received[i].sum)
      verdict = Error{Errc::corrupt,
                      fmt::format("{} sent {} bytes with sum {:016x} to {}, {} with {:016x} came "
                                  "(PUBLISH-1); publish again",
                                  label(i), in[i].bytes, in[i].sum, label(card_), received[i].bytes,
                                  received[i].sum)};
  }
  Word word{version, program_.fingerprint, 0, 0, 0, {}};
  if (!verdict) {
    word.errc = static_cast<uint64_t>(verdict.error().code);
    const std::string& text = verdict.error().detail;
    std::memcpy(word.reason.data(), text.data(), std::min(text.size(), word.reason.size() - 1));
  }
  out.assign(cards, word);
  COHORT_TRY(swap_words());
  for (uint32_t i = 0; i < cards; ++i)
    if (in[i].errc != 0) {
      in[i].reason.back() = 0;
      return Error{
          static_cast<Errc>(in[i].errc),
          fmt::format("publish of version {}: {}: {}", version, label(i), in[i].reason.data())};
    }
  return {};
}

void GroupMember::Impl::copy_own() {
  constexpr uint64_t k_stretch = uint64_t{1} << 20;
  std::vector<std::byte> room;
  for (uint32_t index : program_.local_copies) {
    const ReshardTransfer& x = transfer(index);
    const uint64_t all = copies_.packed_bytes(x);
    RunList from = address(copies_.source_parts(x), family(x), source_, widen_);
    RunList to = address(copies_.target_parts(x), family(x), target_, 1);
    tensor::Checksum sum;
    room.resize(std::min(all, k_stretch));
    note_staging(room.size());
    for (uint64_t at = 0; at < all; at += k_stretch) {
      std::span<std::byte> stretch = std::span(room).first(std::min(k_stretch, all - at));
      gather(from, at, stretch, widen_);
      sum.update(stretch);
      scatter(to, at, stretch);
    }
    for (std::vector<Tally>* tally : {&sent_, &received_}) {
      (*tally)[card_].bytes += all;
      (*tally)[card_].sum += transfer_sum(index, sum.digest());
    }
    report_.kept_bytes += all;
  }
}

Expected<void> GroupMember::Impl::run(const Step& step) {
  std::vector<uint64_t> to(plan_->cards.size() + 1, 0), from = to;  // offsets, by card
  for (auto [card, out] : step.sends) to[card + 1] += out->bytes;
  for (auto [card, receive] : step.receives) from[card + 1] += program_.receives[receive].bytes;
  for (size_t i = 1; i < to.size(); ++i) {
    to[i] += to[i - 1];
    from[i] += from[i - 1];
  }
  std::vector<std::byte> sending(to.back()), receiving(from.back());
  note_staging(sending.size() + receiving.size());
  std::vector<uint64_t> at(to.begin(), to.end());
  for (auto [card, out] : step.sends) {
    std::span<std::byte> packed = std::span(sending).subspan(at[card], out->bytes);
    at[card] += out->bytes;
    pack(*out, packed);
    sent_[card].bytes += packed.size();
    sent_[card].sum += transfer_sum(out->transfer, tensor::checksum64(packed));
    report_.sent_bytes += packed.size();
    report_.wire_bytes += packed.size();
    report_.packed_bytes += packed.size();
  }
  std::vector<std::span<const std::byte>> out;
  std::vector<std::span<std::byte>> in;
  for (size_t i = 0; i + 1 < to.size(); ++i) {
    out.push_back(std::span(sending).subspan(to[i], to[i + 1] - to[i]));
    in.push_back(std::span(receiving).subspan(from[i], from[i + 1] - from[i]));
  }
  if (auto done = exchange_(out, in); !done)
    return done.error().with_context(fmt::format("publish of version {}", report_.version));
  at.assign(from.begin(), from.end());
  for (auto [card, receive] : step.receives) {
    const uint64_t bytes = program_.receives[receive].bytes;
    unpack(receive, card, std::span(receiving).subspan(at[card], bytes));
    at[card] += bytes;
  }
  return {};
}

void GroupMember::Impl::pack(const Outgoing& out, std::span<std::byte> packed) const {
  if (out.staged != k_none) {
    std::ranges::copy(staged_.at(out.staged), packed.begin());
    return;
  }
  const ReshardTransfer& x = transfer(out.transfer);
  const bool is_before = x.source == ReshardTransfer::Source::before;
  RunList runs = address(copies_.source_parts(x), family(x), is_before ? source_ : target_,
                         is_before ? widen_ : 1);
  gather(runs, 0, packed, is_before ? widen_ : 1);
}

void GroupMember::Impl::unpack(uint32_t receive, uint32_t from, std::span<const std::byte> packed) {
  const Incoming& incoming = program_.receives[receive];
  const ReshardTransfer& x = transfer(incoming.transfer);
  const uint32_t round = x.round;
  std::erase_if(staged_, [&](const auto& kept) {  // bytes staged in a round are gone in the next
    bool is_over = transfer(program_.receives[kept.first].transfer).round < round;
    if (is_over) staged_bytes_ -= kept.second.size();
    return is_over;
  });
  received_[from].bytes += packed.size();
  received_[from].sum += transfer_sum(incoming.transfer, tensor::checksum64(packed));
  RunList runs = address(copies_.target_parts(x), family(x), target_, 1);
  scatter(runs, 0, packed);
  if (incoming.is_passed_on) {
    staged_[receive].assign(packed.begin(), packed.end());
    staged_bytes_ += packed.size();
  }
  report_.received_bytes += packed.size();
  report_.received_by_step[x.step] += packed.size();
}

GroupMember::GroupMember(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GroupMember::~GroupMember() = default;

Expected<std::unique_ptr<GroupMember>> GroupMember::open(MemberOptions options, AllToAll exchange) {
  COHORT_TRY(check_options(options));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(exchange));
  COHORT_TRY(impl->check());
  return std::unique_ptr<GroupMember>(new GroupMember(std::move(impl)));
}

Expected<PublishReport> GroupMember::publish(uint64_t version) { return impl_->publish(version); }
Expected<void> GroupMember::commit(uint64_t version) { return impl_->commit(version); }
std::optional<uint64_t> GroupMember::served() const { return impl_->served(); }
uint64_t GroupMember::shard_checksum() const { return impl_->shard_checksum(); }

}  // namespace cohort::publish
