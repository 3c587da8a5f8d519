// One card of a publish group as a process, ordered about by a test through files:
//   publish_card FOLDER SCENARIO CARD FIRST_ORDER
// FOLDER/order.K holds the K-th order, FOLDER/answer.K.CARD what came of it:
//   group N WIRE MODE    open the N-th group: endpoints through FOLDER/endpoint.N.CARD
//   publish V            weights of version V; answers "arrived sent received kept staging seconds"
//                        or why
//   commit V             serve it
//   abort V              drop it
//   check V              "served" if what is served is version V bit by bit
//   stop CARD send|receive COUNT   that card will stand still for good at the COUNT-th chunk that
//                        it sends or receives, and say so in FOLDER/stopped.CARD: to be killed
//                        there
//   exit
#include <atomic>
#include <iostream>
#include <sstream>

#include "runtime/publish/member.hpp"
#include "runtime/publish/ports.hpp"
#include "tests/support/publish_scenario.hpp"

namespace {

using namespace cohort;

/// Where to stand still; set before a publish begins.
struct Stop {
  std::string flag;
  std::atomic<int> sends_left{0}, receives_left{0};
};

/// Stands still at a chunk.
class StoppingPort final : public publish::Port {
 public:
  StoppingPort(std::unique_ptr<publish::Port> port, std::shared_ptr<Stop> stop)
      : port_(std::move(port)), stop_(std::move(stop)) {}
  std::string endpoint() const override { return port_->endpoint(); }
  Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                         uint64_t window_bytes) override {
    return port_->connect(own, endpoints, window_bytes);
  }
  Expected<void> forget(uint64_t version) override { return port_->forget(version); }
  std::span<std::byte> window() override { return port_->window(); }
  std::span<const std::byte> window_of(uint32_t peer) override { return port_->window_of(peer); }
  bool has_windows() const override { return port_->has_windows(); }
  uint64_t held_bytes() const override { return port_->held_bytes(); }
  int wait_fd() const override { return port_->wait_fd(); }
  Expected<bool> send(uint32_t peer, const publish::Note& note, tensor::Buffer body) override {
    if (note.kind == publish::NoteKind::data) count(stop_->sends_left);
    return port_->send(peer, note, std::move(body));
  }
  std::optional<publish::PortEvent> next() override {
    auto event = port_->next();
    bool is_data = event && event->kind == publish::PortEvent::Kind::note &&
                   event->note.kind == publish::NoteKind::data;
    if (is_data) count(stop_->receives_left);
    return event;
  }

 private:
  void count(std::atomic<int>& left) {
    if (left.fetch_sub(1) != 1) return;
    test::write_whole(stop_->flag, "here");
    for (;;) ::pause();
  }
  std::unique_ptr<publish::Port> port_;
  std::shared_ptr<Stop> stop_;
};

class Card {
 public:
  Card(std::string folder, std::string scenario, uint32_t card)
      : folder_(std::move(folder)), scenario_(std::move(scenario)), card_{card} {
    stop_->flag = folder_ + "/stopped." + std::to_string(card);
  }

  /// Obeys until told to exit.
  int run(int first_order) {
    for (int k = first_order;; ++k) {
      std::string order = test::wait_for_file(folder_ + "/order." + std::to_string(k), 60000);
      std::istringstream words(order);
      std::string verb;
      words >> verb;
      if (verb == "exit" || verb.empty()) {
        member_.reset();
        return verb.empty() ? 1 : 0;
      }
      std::string answer = obey(verb, words);
      test::write_whole(
          folder_ + "/answer." + std::to_string(k) + "." + std::to_string(card_.value), answer);
    }
  }

 private:
  std::string obey(const std::string& verb, std::istringstream& words) {
    if (verb == "group") {
      std::string number, wire, mode;
      words >> number >> wire >> mode;
      auto joined = join(number, wire, mode);
      return joined ? "joined" : joined.error().to_string();
    }
    if (verb == "stop") {
      uint32_t card = 0;
      std::string what;
      int count = 0;
      words >> card >> what >> count;
      if (CardId{card} == card_)
        (what == "send" ? stop_->sends_left : stop_->receives_left) = count;
      return "noted";
    }
    uint64_t version = 0;
    words >> version;
    if (verb == "publish") return publish(version);
    if (verb == "abort") {
      member_->abort(version, "a card was killed");
      return "aborted";
    }
    if (verb == "commit") {
      auto done = member_->commit(version);
      if (!done) return done.error().to_string();
      std::swap(shadow_, served_);
      return "served";
    }
    bool is_same = served_ == test::weights_of(plan_->model, plan_->to, card_, version);
    return is_same ? "served" : "it is not that version";
  }

  Expected<void> join(const std::string& number, const std::string& wire, const std::string& mode) {
    member_.reset();
    COHORT_ASSIGN(plan::ReshardPlan plan, test::plan_scenario(scenario_, mode));
    plan_ = std::make_shared<plan::ReshardPlan>(std::move(plan));
    before_.emplace(plan_->model, plan_->from);
    after_.emplace(plan_->model, plan_->to);
    from_parts_.emplace(*before_, card_);
    to_parts_.emplace(*after_, card_);
    served_.resize(to_parts_->bytes());
    shadow_.resize(to_parts_->bytes());
    COHORT_ASSIGN(auto port, make_port(wire));
    publish::MemberOptions options;
    options.plan = plan_;
    options.card = card_;
    for (CardId card : plan_->cards) options.labels.push_back("card " + std::to_string(card.value));
    options.source = [this](const publish::PartName& name) {
      return publish::flat_source(*from_parts_, source_)(name);
    };
    options.target = [this](const publish::PartName& name) {
      return publish::flat_target(*to_parts_, shadow_)(name);
    };
    options.chunk_bytes = 4 << 10;
    options.timeout_ms = 20000;
    COHORT_ASSIGN(member_, publish::Member::open(std::move(options), std::move(port)));
    std::string prefix = folder_ + "/endpoint." + number + ".";
    test::write_whole(prefix + std::to_string(card_.value), member_->endpoint());
    std::vector<std::string> endpoints;
    for (CardId card : plan_->cards)
      endpoints.push_back(test::wait_for_file(prefix + std::to_string(card.value)));
    return member_->connect(endpoints);
  }

  Expected<std::unique_ptr<publish::Port>> make_port(const std::string& wire) {
    std::unique_ptr<publish::Port> port;
    if (wire == "shm") {
      COHORT_ASSIGN(port, publish::open_shared_port());
    } else {
      publish::LinkPortOptions options;
      options.context = &context_;
      options.link.endpoint = "tcp://127.0.0.1:*";
      options.link.run_id = "publish-test";
      options.link.heartbeat_ms = 100;
      options.link.peer_timeout_ms = 60000;  // a death is seen by its closed connection
      COHORT_ASSIGN(port, publish::open_link_port(options));
    }
    return std::unique_ptr<publish::Port>(std::make_unique<StoppingPort>(std::move(port), stop_));
  }

  std::string publish(uint64_t version) {
    source_ = test::weights_of(plan_->model, plan_->from, card_, version);
    auto report = member_->publish(version);
    if (!report) return report.error().to_string();
    bool is_whole = shadow_ == test::weights_of(plan_->model, plan_->to, card_, version);
    std::ostringstream text;
    text << (is_whole ? "arrived " : "wrong ") << report->sent_bytes << " "
         << report->received_bytes << " " << report->kept_bytes << " " << report->staging_peak
         << " " << report->seconds;
    return text.str();
  }

  std::string folder_, scenario_;
  CardId card_;
  std::shared_ptr<Stop> stop_ = std::make_shared<Stop>();
  transport::Context context_;
  std::shared_ptr<plan::ReshardPlan> plan_;
  std::optional<plan::Shards> before_, after_;
  std::optional<publish::PartTable> from_parts_, to_parts_;
  std::vector<std::byte> source_, shadow_, served_;
  std::unique_ptr<publish::Member> member_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "publish_card FOLDER SCENARIO CARD FIRST_ORDER\n";
    return 2;
  }
  return Card(argv[1], argv[2], static_cast<uint32_t>(std::atoi(argv[3]))).run(std::atoi(argv[4]));
}
