#include "runtime/publish/member.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/publish/event_queue.hpp"
#include "runtime/publish/session.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::publish {
namespace {

constexpr int k_events_per_turn = 64;  // between two chunks: a peer's notes must not starve sending
constexpr int k_chunks_per_turn = 2;   // between two words to their senders
constexpr uint64_t k_window_chunk_bytes = uint64_t{1} << 20;
constexpr uint64_t k_link_chunk_bytes = uint64_t{2} << 20;  // fewer wake-ups of three threads
constexpr size_t k_window_slots = 8;     // of the window, which its readers should find in a cache
constexpr size_t k_link_slots = 64;      // a link's acknowledgements come late
constexpr size_t k_reason_bytes = 2000;  // of a `failed` note
constexpr size_t k_early_versions = 4;   // whose notes wait for begin()
constexpr size_t k_early_notes = 4;      // of a peer for one version: two grants and a failure

Expected<void> check_types(const MemberOptions& options) {
  bool is_cast = options.from == tensor::Dtype::f32 && options.to == tensor::Dtype::bf16;
  if (options.from != options.to && !is_cast)
    return Error{Errc::invalid_argument,
                 fmt::format("publish: no cast from {} to {}: only f32 to bf16",
                             tensor::to_string(options.from), tensor::to_string(options.to))};
  for (const plan::TensorSpec& spec : options.plan->model.tensors)
    if (spec.element_bytes != tensor::size_of(options.to))
      return Error{Errc::invalid_argument,
                   fmt::format("publish: {} is planned with elements of {} bytes, {} has {}: plan "
                               "the reshard in the type that travels",
                               spec.name, spec.element_bytes, tensor::to_string(options.to),
                               tensor::size_of(options.to))};
  return {};
}

class CardMember final : public Member {
 public:
  CardMember(MemberOptions options, std::unique_ptr<Port> port)
      : options_(std::move(options)),
        plan_(options_.plan),
        port_(std::move(port)),
        copies_(*plan_),
        before_(plan_->model, plan_->from),
        after_(plan_->model, plan_->to),
        card_(static_cast<uint32_t>(std::ranges::lower_bound(plan_->cards, options_.card) -
                                    plan_->cards.begin())),
        program_(make_program(copies_, card_)),
        source_(before_, options_.card),
        target_(after_, options_.card),
        endpoint_(port_->endpoint()) {
    set_up();
  }

  ~CardMember() override {
    {
      std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    wake_.wake();
    if (thread_.joinable()) thread_.join();
  }

  const std::string& endpoint() const override { return endpoint_; }

  Expected<void> check() const {
    if (!options_.source && !source_.parts().empty())
      return Error{Errc::invalid_argument, "publish: a card of the train layout needs a source"};
    if (!options_.target && !target_.parts().empty())
      return Error{Errc::invalid_argument, "publish: a card of the infer layout needs a target"};
    return {};
  }

  Expected<void> connect(const std::vector<std::string>& endpoints) override {
    std::vector<std::string> peers(plan_->cards.size());
    if (endpoints.size() != peers.size())
      return Error{Errc::invalid_argument, fmt::format("publish: {} endpoints for {} cards",
                                                       endpoints.size(), peers.size())};
    for (const Destination& x : program_.destinations) peers[x.card] = endpoints[x.card];
    for (const Sender& x : program_.senders) peers[x.card] = endpoints[x.card];
    uint64_t window = program_.destinations.empty() ? 0 : setup_.slots * setup_.chunk_bytes;
    COHORT_TRY(port_->connect(card_, peers, window));
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Expected<void> begin(uint64_t version, OnEnd on_end) override {
    std::lock_guard lock(mutex_);
    if (!dead_.empty()) return Error{Errc::closed, dead_};
    if (state_ == State::running)
      return Error{Errc::protocol, fmt::format("publish of version {}: version {} is under way",
                                               version, version_)};
    if (newest_ && version <= *newest_)
      return Error{Errc::invalid_argument,
                   fmt::format("publish of version {}: version {} was begun before; a version that "
                               "failed is not used again (PUBLISH-2)",
                               version, *newest_)};
    state_ = State::running;
    version_ = version;
    newest_ = version;
    result_.reset();
    on_end_ = std::move(on_end);
    is_abort_asked_ = false;
    is_begin_asked_ = true;
    wake_.wake();
    return {};
  }

  Expected<PublishReport> wait(uint64_t version) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return version_ != version || result_ || !newest_; });
    if (version_ != version || !result_)
      return Error{Errc::not_found, fmt::format("publish of version {}: not begun", version)};
    return *result_;
  }

  Expected<void> commit(uint64_t version) override {
    std::lock_guard lock(mutex_);
    if (served_ == version) return {};
    if (state_ != State::arrived || version_ != version)
      return Error{Errc::protocol,
                   fmt::format("commit of version {}: it has not arrived at {}; served stays {} "
                               "(PUBLISH-2)",
                               version, label(card_),
                               served_ ? fmt::format("version {}", *served_) : "what it was")};
    served_ = version;
    state_ = State::idle;
    return {};
  }

  void abort(uint64_t version, const std::string& reason) override {
    std::unique_lock lock(mutex_);
    if (version_ != version || !newest_) return;
    if (state_ == State::arrived) state_ = State::idle;
    if (state_ != State::running) return;
    is_abort_asked_ = true;
    abort_reason_ = reason;
    wake_.wake();
    changed_.wait(lock, [&] { return state_ != State::running || version_ != version; });
    if (state_ == State::arrived && version_ == version) state_ = State::idle;  // it was faster
  }

  std::optional<uint64_t> served() const override {
    std::lock_guard lock(mutex_);
    return served_;
  }
  uint64_t shard_checksum() const override { return target_.checksum(); }

 private:
  enum class State { idle, running, arrived };

  void set_up() {
    uint64_t element = tensor::size_of(options_.to), bucket = program_.bucket_bytes;
    setup_.options = &options_;
    setup_.copies = &copies_;
    setup_.program = &program_;
    setup_.widen = tensor::size_of(options_.from) / element;
    uint64_t chunk = port_->has_windows() ? k_window_chunk_bytes : k_link_chunk_bytes;
    if (options_.chunk_bytes > 0) chunk = options_.chunk_bytes;
    chunk = std::min(chunk, bucket / 4);
    if (!port_->has_windows()) chunk = std::min<uint64_t>(chunk, transport::k_max_chunk_bytes);
    setup_.chunk_bytes = std::max(chunk / element * element, element);
    setup_.slots = count_slots();
    setup_.source = &source_;
    setup_.target = &target_;
  }

  /// Chunks that may be on their way. A card that receives keeps one bucket for that, so that both
  /// directions fit into two (PUBLISH-3); a window is small enough to stay in a cache.
  size_t count_slots() const {
    uint64_t room = program_.bucket_bytes;
    if (!port_->has_windows() && program_.turns.empty()) room *= 2;
    uint64_t slots = room / setup_.chunk_bytes;
    uint64_t most = port_->has_windows() ? k_window_slots : k_link_slots;
    return static_cast<size_t>(std::clamp<uint64_t>(slots, 1, most));
  }

  // ---- the member's thread ---------------------------------------------------------------------

  void run() {
    for (;;) {
      if (take_commands()) return;
      bool has_moved = take_events();
      if (session_) {
        auto moved = session_->step();
        if (!moved)
          end(moved.error());
        else
          has_moved = has_moved || *moved;
      }
      if (session_ && session_->is_done()) publish_end(session_->report());
      if (has_moved)
        last_move_ = now_seconds();
      else
        sleep();
    }
  }

  /// Returns true when the member closes.
  bool take_commands() {
    bool is_stopping = false, is_begin = false, is_abort = false;
    std::string reason;
    {
      std::lock_guard lock(mutex_);
      is_stopping = is_stopping_;
      is_begin = std::exchange(is_begin_asked_, false);
      if (is_begin) current_ = version_;
      is_abort = std::exchange(is_abort_asked_, false);
      reason = abort_reason_;
    }
    if (is_begin) start();
    if ((is_abort || is_stopping) && session_)
      end({Errc::cancelled, fmt::format("publish of version {}: aborted at {}: {}", current_,
                                        label(card_), is_stopping ? "it closes" : reason)});
    return is_stopping;
  }

  void start() {
    last_move_ = now_seconds();
    if (auto ready = prepare(); !ready) {
      end(ready.error().with_context(fmt::format("publish of version {}", current_)));
      return;
    }
    session_.emplace(setup_, *port_, current_);
    for (uint32_t peer : peers_of(program_))
      if (auto lost = lost_.find(peer); lost != lost_.end()) return end(gone(peer, lost->second));
    auto told = early_.find(current_);
    std::vector<PortEvent> events;
    if (told != early_.end()) events = std::move(told->second);
    early_.erase(early_.begin(), early_.upper_bound(current_));
    for (PortEvent& event : events)
      if (session_) on_note(std::move(event));
  }

  Expected<void> prepare() {
    if (failed_) COHORT_TRY(port_->forget(*failed_));
    failed_.reset();
    if (!source_.parts().empty()) COHORT_TRY(source_.resolve(options_.source, setup_.widen));
    if (!target_.parts().empty()) COHORT_TRY(target_.resolve(options_.target));
    return {};
  }

  bool take_events() {
    for (int i = 0, chunks = 0; i < k_events_per_turn && chunks < k_chunks_per_turn; ++i) {
      auto event = port_->next();
      if (!event) return i > 0;
      if (event->kind == PortEvent::Kind::lost) {
        on_lost(event->peer, event->reason);
      } else if (event->kind == PortEvent::Kind::taken) {
        on_taken(*event);
      } else {
        chunks += event->note.kind == NoteKind::data ? 1 : 0;
        on_note(std::move(*event));
      }
    }
    return true;
  }

  void on_taken(const PortEvent& event) {
    if (!session_ || event.note.version != session_->version()) return;
    if (auto done = session_->on_taken(event.peer); !done) end(done.error());
  }

  void on_lost(uint32_t peer, const std::string& reason) {
    lost_.emplace(peer, reason);
    Error error = gone(peer, reason);
    {
      std::lock_guard lock(mutex_);
      if (dead_.empty()) dead_ = error.detail + "; open a new group";
    }
    if (session_) end(error);
  }

  Error gone(uint32_t peer, const std::string& reason) const {
    return {Errc::closed, fmt::format("publish of version {}: {} is gone: {} (seen by {})",
                                      current_, label(peer), reason, label(card_))};
  }

  /// PUBLISH-2: notes of older versions end here; those of a later one wait for its begin().
  void on_note(PortEvent event) {
    const Note& note = event.note;
    bool is_early =
        session_ ? note.version > session_->version() : !ended_ || note.version > *ended_;
    if (is_early) {
      if (note.kind == NoteKind::failed) tell(note.version, failure_of(event));
      bool may_be_early = note.kind == NoteKind::grant || note.kind == NoteKind::failed;
      if (may_be_early) keep(std::move(event));
      return;
    }
    if (note.version != current_) return;
    if (note.kind == NoteKind::failed) return on_failed(event);
    if (!session_) return;
    if (auto done = session_->on_note(std::move(event)); !done) end(done.error());
  }

  /// Until its version begins. A driver is a version or two ahead of its slowest card; a peer that
  /// sends more is not of this program, and its notes are dropped.
  void keep(PortEvent event) {
    if (!early_.contains(event.note.version) && early_.size() == k_early_versions) return;
    std::vector<PortEvent>& events = early_[event.note.version];
    auto is_of_peer = [&](const PortEvent& x) { return x.peer == event.peer; };
    if (std::ranges::count_if(events, is_of_peer) < static_cast<std::ptrdiff_t>(k_early_notes))
      events.push_back(std::move(event));
  }

  /// Another member saw the version fail. What has arrived here is not to be served then.
  void on_failed(const PortEvent& event) {
    Error error = failure_of(event);
    tell(current_, error);
    {
      std::lock_guard lock(mutex_);
      if (error.code == Errc::closed && dead_.empty()) dead_ = error.detail + "; open a new group";
      if (state_ == State::arrived && version_ == current_) state_ = State::idle;
    }
    if (session_) end(error);
  }

  static Error failure_of(const PortEvent& event) {
    auto text = event.body.bytes();
    auto code = static_cast<Errc>(event.note.round);
    bool is_known = event.note.round > 0 && event.note.round <= static_cast<uint32_t>(Errc::denied);
    std::string reason(reinterpret_cast<const char*>(text.data()),
                       std::min(text.size(), k_reason_bytes));
    if (reason.empty()) reason = "a card says that it failed, and no reason";
    return {is_known ? code : Errc::protocol, std::move(reason)};
  }

  /// Tells the peers why a version is over, once; they pass it on to theirs.
  void tell(uint64_t version, const Error& error) {
    if (told_ && version <= *told_) return;
    told_ = version;
    Note note;
    note.kind = NoteKind::failed;
    note.from = card_;
    note.version = version;
    note.plan = program_.fingerprint;
    note.round = static_cast<uint32_t>(error.code);
    std::string text = error.detail.substr(0, k_reason_bytes);
    auto body = tensor::Buffer::copy_of(std::as_bytes(std::span<const char>(text)));
    for (uint32_t peer : peers_of(program_))
      if (!lost_.contains(peer)) [[maybe_unused]]
        auto is_told = port_->send(peer, note, body);  // or its timeout tells it
  }

  void end(const Error& error) {
    if (session_) {
      tell(current_, error);
      failed_ = current_;
    }
    publish_end(error);
  }

  void publish_end(Expected<PublishReport> result) {
    session_.reset();
    ended_ = current_;
    OnEnd on_end;
    {
      std::lock_guard lock(mutex_);
      state_ = result ? State::arrived : State::idle;
      result_ = result;
      on_end = std::exchange(on_end_, nullptr);
    }
    changed_.notify_all();
    if (on_end) on_end(std::move(result));
  }

  void sleep() {
    int wait_ms = -1;
    if (session_) {
      // Senders know better what hinders them: their word should come first.
      double patience = options_.timeout_ms * (session_->is_only_receiving() ? 1.25e-3 : 1e-3);
      double left = last_move_ + patience - now_seconds();
      if (left <= 0)
        return end(
            {Errc::timeout,
             fmt::format("publish of version {}: nothing has moved at {} for {} ms; it "
                         "waits for {}",
                         current_, label(card_), options_.timeout_ms, session_->waits_for())});
      wait_ms = static_cast<int>(std::ceil(left * 1e3));
    }
    std::array<pollfd, 2> fds{pollfd{port_->wait_fd(), POLLIN, 0}, pollfd{wake_.fd(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), wait_ms);
    wake_.pop();
  }

  std::string label(uint32_t card) const {
    if (card < options_.labels.size() && !options_.labels[card].empty())
      return options_.labels[card];
    return fmt::format("card {}", plan_->cards[card].value);
  }

  MemberOptions options_;
  std::shared_ptr<const plan::ReshardPlan> plan_;
  std::unique_ptr<Port> port_;
  plan::ReshardCopies copies_;
  plan::Shards before_, after_;
  uint32_t card_;  // index of plan.cards
  Program program_;
  PartTable source_, target_;
  std::string endpoint_;
  Setup setup_;

  // Of the thread.
  std::optional<Session> session_;
  uint64_t current_ = 0;  // version begun last
  std::optional<uint64_t> ended_, told_;
  std::map<uint32_t, std::string> lost_;
  std::map<uint64_t, std::vector<PortEvent>> early_;  // by version
  std::optional<uint64_t> failed_;                    // and the port has not yet forgotten it
  double last_move_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  uint64_t version_ = 0;  // begun last
  std::optional<uint64_t> newest_, served_;
  std::optional<Expected<PublishReport>> result_;
  OnEnd on_end_;
  std::string dead_, abort_reason_;
  bool is_begin_asked_ = false, is_abort_asked_ = false, is_stopping_ = false;
  EventQueue<char> wake_;
  std::thread thread_;
};

Expected<void> check_options(const MemberOptions& options) {
  const plan::ReshardPlan& plan = *options.plan;
  if (!std::ranges::binary_search(plan.cards, options.card))
    return Error{
        Errc::invalid_argument,
        fmt::format("publish: card {} is in neither layout of the plan", options.card.value)};
  if (plan.transfers.empty() && plan::model_bytes(plan.model) > 0)
    return Error{Errc::invalid_argument,
                 "publish: the plan has byte tables only; plan again without tables_only"};
  return check_types(options);
}

}  // namespace

Expected<std::unique_ptr<Member>> Member::open(MemberOptions options, std::unique_ptr<Port> port) {
  COHORT_TRY(check_options(options));
  auto member = std::make_unique<CardMember>(std::move(options), std::move(port));
  COHORT_TRY(member->check());
  return std::unique_ptr<Member>(std::move(member));
}

Expected<PublishReport> Member::publish(uint64_t version) {
  COHORT_TRY(begin(version));
  return wait(version);
}

}  // namespace cohort::publish
