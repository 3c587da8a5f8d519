// Publishing a model of 1 GB (Qwen2.5-0.5B's tensors, bf16) from 1 or 2 senders to 2 replicas, each
// card a process; one JSON line per case.
//   publish_bench [--case=shm|tcp] [--senders=1|2] [--repeats=7] [--bucket-mib=16]
//                 [--chunk-kib=0]
// Rates count the bytes that the replicas receive (2 GB). Checksums are on. Ceilings, in turns with
// the publish: shm: one memcpy loop, and two at a time, over as many bytes between buffers of the
// model's size; tcp: raw ZeroMQ (DEALER to ROUTER, zero copy at the sender) of the same bytes
// between the same processes in the same chunks, every byte read once at each end.
// Figures are medians over the repeats. cpu_seconds: of all cards, which other work on the machine
// disturbs less than the clock; over the cores it is the least time that a publish can take there.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/plan/reshard/model_families.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/publish/ports.hpp"
#include "tests/support/reshard_models.hpp"

namespace {

using namespace cohort;

struct Settings {
  std::string only;
  uint32_t senders = 0;
  int repeats = 7;
  uint64_t bucket_bytes = uint64_t{16} << 20;
  uint64_t chunk_bytes = 0;  // of tcp 2 MiB, else 1 MiB: the members' choice
};

struct Case {
  std::string wire;
  uint32_t senders = 1;
};

constexpr uint32_t k_replicas = 2;
constexpr size_t k_endpoint_bytes = 256;

Settings with_chunks(const Case& x, Settings settings) {
  if (settings.chunk_bytes == 0)
    settings.chunk_bytes = x.wire == "tcp" ? uint64_t{2} << 20 : uint64_t{1} << 20;
  return settings;
}

// ---- words between the parent and its cards -------------------------------------------------

struct Order {
  char what = 0;  // p publish, c commit, m change words, 1 and 2 memcpy, r raw, q quit
  uint64_t version = 0;
};
struct Reply {
  uint64_t sent = 0, packed = 0, staging = 0, sum = 0;
  double cpu_seconds = 0;
};
using Endpoint = std::array<char, k_endpoint_bytes>;

template <class T>
void put(int fd, const T& value) {
  COHORT_CHECK(::write(fd, &value, sizeof(T)) == sizeof(T), "bench: a card is gone");
}
template <class T>
T take(int fd) {
  T value{};
  COHORT_CHECK(::recv(fd, &value, sizeof(T), MSG_WAITALL) == sizeof(T), "bench: a card is gone");
  return value;
}

/// Of all threads of this process.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& x) {
    return static_cast<double>(x.tv_sec) + 1e-6 * static_cast<double>(x.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t read_all(const void* data, size_t size_bytes) {
  std::array<uint64_t, 8> sums{};
  const char* bytes = static_cast<const char*>(data);
  for (size_t i = 0; i + 64 <= size_bytes; i += 64) {
    std::array<uint64_t, 8> words;
    std::memcpy(words.data(), bytes + i, 64);
    for (size_t k = 0; k < 8; ++k) sums[k] += words[k];
  }
  uint64_t sum = 0;
  for (uint64_t x : sums) sum += x;
  return sum;
}

// ---- one card ---------------------------------------------------------------------------------

class Card {
 public:
  Card(const Case& x, const Settings& settings, std::shared_ptr<plan::ReshardPlan> plan,
       uint32_t index, int parent)
      : case_(x),
        settings_(with_chunks(x, settings)),
        plan_(std::move(plan)),
        index_(index),
        parent_(parent),
        before_(plan_->model, plan_->from),
        after_(plan_->model, plan_->to),
        from_parts_(before_, CardId{index}),
        to_parts_(after_, CardId{index}),
        source_(from_parts_.bytes()),
        target_(to_parts_.bytes()) {
    Rng rng(index < case_.senders ? 1 : 2);  // replicas of the policy hold the same
    for (size_t i = 0; i + 8 <= source_.size(); i += 8) {
      uint64_t word = rng.next_u64();
      std::memcpy(source_.data() + i, &word, 8);
    }
  }

  void run() {
    open();
    for (;;) {
      auto order = take<Order>(parent_);
      Reply reply;
      if (order.what == 'q') break;
      double cpu_start = cpu_seconds();
      if (order.what == 'p') reply = publish(order.version);
      if (order.what == 'c') commit(order.version);
      if (order.what == '1' || order.what == '2') copy(order.what - '0');
      if (order.what == 'r') reply.sum = is_sender() ? raw_send() : raw_receive();
      reply.cpu_seconds = cpu_seconds() - cpu_start;
      put(parent_, reply);
    }
    for (void* socket : sockets_) zmq_close(socket);
    if (raw_ != nullptr) zmq_ctx_term(raw_);
  }

 private:
  bool is_sender() const { return index_ < case_.senders; }

  void open() {
    publish::MemberOptions options;
    options.plan = plan_;
    options.card = CardId{index_};
    options.chunk_bytes = settings_.chunk_bytes;
    options.source = [this](const publish::PartName& name) {
      return publish::flat_source(from_parts_, source_)(name);
    };
    options.target = [this](const publish::PartName& name) {
      return publish::flat_target(to_parts_, target_)(name);
    };
    auto member = publish::Member::open(std::move(options), make_port());
    COHORT_CHECK(member, member.error().to_string());
    member_ = std::move(*member);
    exchange(member_->endpoint(), [this](const std::vector<std::string>& endpoints) {
      auto connected = member_->connect(endpoints);
      COHORT_CHECK(connected, connected.error().to_string());
    });
    if (case_.wire == "tcp") open_raw();
  }

  std::unique_ptr<publish::Port> make_port() {
    if (case_.wire == "shm") return std::move(*publish::open_shared_port());
    publish::LinkPortOptions options;
    options.context = &context_;
    options.link.endpoint = "tcp://127.0.0.1:*";
    options.link.run_id = "bench";
    return std::move(*publish::open_link_port(options));
  }

  /// Sends the own endpoint to the parent, gets all.
  template <class F>
  void exchange(const std::string& own, F f) {
    Endpoint mine{};
    std::copy(own.begin(), own.end(), mine.begin());
    put(parent_, mine);
    std::vector<std::string> all;
    for (size_t i = 0; i < plan_->cards.size(); ++i)
      all.emplace_back(take<Endpoint>(parent_).data());
    f(all);
  }

  Reply publish(uint64_t version) {
    auto report = member_->publish(version);
    COHORT_CHECK(report, report.error().to_string());
    return {report->sent_bytes, report->packed_bytes, report->staging_peak};
  }

  void commit(uint64_t version) {
    auto done = member_->commit(version);
    COHORT_CHECK(done, done.error().to_string());
  }

  /// memcpy of what all replicas receive, by one or two threads; the first sender alone.
  void copy(int threads) {
    if (index_ != 0) return;
    if (copy_.empty()) copy_.resize(source_.size(), std::byte{1});
    size_t share = source_.size() / static_cast<size_t>(threads);
    auto part = [&](size_t i) {
      for (uint32_t k = 0; k < k_replicas; ++k)
        std::memcpy(copy_.data() + i * share, source_.data() + i * share, share);
    };
    std::thread second;
    if (threads == 2) second = std::thread(part, 1);
    part(0);
    if (second.joinable()) second.join();
  }

  // ---- raw ZeroMQ ----

  void open_raw() {
    raw_ = zmq_ctx_new();
    int frames =
        static_cast<int>(std::max<uint64_t>(2, settings_.bucket_bytes / settings_.chunk_bytes));
    auto make = [&](int type) {
      void* socket = zmq_socket(raw_, type);
      zmq_setsockopt(socket, ZMQ_SNDHWM, &frames, sizeof(frames));
      zmq_setsockopt(socket, ZMQ_RCVHWM, &frames, sizeof(frames));
      sockets_.push_back(socket);
      return socket;
    };
    Endpoint resolved{};
    if (!is_sender()) {
      void* socket = make(ZMQ_ROUTER);
      COHORT_CHECK(zmq_bind(socket, "tcp://127.0.0.1:*") == 0, "raw bind");
      size_t size = resolved.size();
      zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, resolved.data(), &size);
    }
    exchange(resolved.data(), [&](const std::vector<std::string>& endpoints) {
      for (uint32_t i = case_.senders; is_sender() && i < endpoints.size(); ++i)
        COHORT_CHECK(zmq_connect(make(ZMQ_DEALER), endpoints[i].c_str()) == 0, "raw connect");
    });
  }

  /// This sender's share of the model, to each replica in turns.
  uint64_t raw_send() {
    uint64_t sum = 0, share = source_.size() / case_.senders, first = index_ * share;
    for (uint64_t at = first; at < first + share; at += settings_.chunk_bytes)
      for (void* socket : sockets_) {
        uint64_t bytes = std::min(settings_.chunk_bytes, first + share - at);
        sum += read_all(source_.data() + at, bytes);
        std::array<char, 80> head{};
        zmq_send(socket, head.data(), head.size(), ZMQ_SNDMORE);
        zmq_msg_t body;
        zmq_msg_init_data(
            &body, source_.data() + at, bytes, [](void*, void*) {}, nullptr);
        COHORT_CHECK(zmq_msg_send(&body, socket, 0) >= 0, "raw send");
      }
    return sum;
  }

  uint64_t raw_receive() {
    uint64_t sum = 0, left = target_.size() / case_.senders * case_.senders;
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (left > 0) {
      for (int i = 0; i < 3; ++i)  // identity, head, body
        COHORT_CHECK(zmq_msg_recv(&part, sockets_[0], 0) >= 0, "raw receive");
      sum += read_all(zmq_msg_data(&part), zmq_msg_size(&part));
      left -= zmq_msg_size(&part);
    }
    zmq_msg_close(&part);
    return sum;
  }

  Case case_;
  Settings settings_;
  std::shared_ptr<plan::ReshardPlan> plan_;
  uint32_t index_;
  int parent_;
  plan::Shards before_, after_;
  publish::PartTable from_parts_, to_parts_;
  std::vector<std::byte> source_, target_, copy_;
  transport::Context context_;
  std::unique_ptr<publish::Member> member_;
  void* raw_ = nullptr;
  std::vector<void*> sockets_;
};

// ---- the parent -------------------------------------------------------------------------------

class Cards {
 public:
  Cards(const Case& x, const Settings& settings, std::shared_ptr<plan::ReshardPlan> plan) {
    for (uint32_t i = 0; i < plan->cards.size(); ++i) {
      std::array<int, 2> ends{};
      COHORT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
                   "bench: socketpair");
      pid_t pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(ends[0]);
        Card(x, settings, plan, i, ends[1]).run();
        std::fflush(stdout);
        ::_exit(0);
      }
      ::close(ends[1]);
      fds_.push_back(ends[0]);
      pids_.push_back(pid);
    }
    exchange();
    if (x.wire == "tcp") exchange();
  }
  ~Cards() {
    for (int fd : fds_) put(fd, Order{'q', 0});
    for (pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
    for (int fd : fds_) ::close(fd);
  }
  Cards(const Cards&) = delete;
  Cards& operator=(const Cards&) = delete;

  /// Returns the seconds until the last card has answered.
  double ask(char what, uint64_t version = 0) {
    double start = now_seconds();
    for (int fd : fds_) put(fd, Order{what, version});
    replies.clear();
    for (int fd : fds_) replies.push_back(take<Reply>(fd));
    return now_seconds() - start;
  }
  std::vector<Reply> replies;

 private:
  void exchange() {
    std::vector<Endpoint> all;
    for (int fd : fds_) all.push_back(take<Endpoint>(fd));
    for (int fd : fds_)
      for (const Endpoint& endpoint : all) put(fd, endpoint);
  }
  std::vector<int> fds_;
  std::vector<pid_t> pids_;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.size() % 2 == 1 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
}

double median_deviation(std::vector<double> x) {
  double middle = median(x);
  for (double& value : x) value = value > middle ? value - middle : middle - value;
  return median(x);
}

std::shared_ptr<plan::ReshardPlan> make_plan(const Case& x, const Settings& settings) {
  auto shape = model::find_model("Qwen/Qwen2.5-0.5B");
  COHORT_CHECK(shape, shape.error().to_string());
  auto replicas = [](const char* name, uint32_t dp, uint32_t first) {
    plan::ShardLayout layout;
    layout.name = name;
    layout.dp = dp;
    layout.ranks = test::consecutive_cards(dp, first);
    return layout;
  };
  plan::ReshardOptions options;
  options.bucket_bytes = settings.bucket_bytes;
  auto plan =
      plan::plan_reshard(plan::reshard_tensors_of(*shape, 2), replicas("train", x.senders, 0),
                         replicas("infer", k_replicas, x.senders), options);
  COHORT_CHECK(plan, plan.error().to_string());
  return std::make_shared<plan::ReshardPlan>(std::move(*plan));
}

std::string head(const Case& x, const Settings& settings, const plan::ReshardPlan& plan) {
  return fmt::format(
      "{{\"bench\":\"publish\",\"wire\":\"{}\",\"senders\":{},\"replicas\":{},"
      "\"model_bytes\":{},\"bucket_bytes\":{},\"chunk_bytes\":{},\"rounds\":{},\"n\":{},"
      "\"cores\":{},\"build\":\"{}\"",
      x.wire, x.senders, k_replicas, plan::model_bytes(plan.model), settings.bucket_bytes,
      with_chunks(x, settings).chunk_bytes, plan.rounds, settings.repeats,
      std::thread::hardware_concurrency(), COHORT_BUILD_TYPE);
}

uint64_t staging_of(const std::vector<Reply>& replies) {
  uint64_t most = 0;
  for (const Reply& x : replies) most = std::max(most, x.staging);
  return most;
}

/// Of what was sent, packed: the rest went along with another card's.
double packed_share_of(const std::vector<Reply>& replies) {
  uint64_t sent = 0, packed = 0;
  for (const Reply& x : replies) sent += x.sent, packed += x.packed;
  return static_cast<double>(packed) / static_cast<double>(sent);
}

double cpu_of(const std::vector<Reply>& replies) {
  double seconds = 0;
  for (const Reply& x : replies) seconds += x.cpu_seconds;
  return seconds;
}

void run_full(const Case& x, const Settings& settings) {
  auto plan = make_plan(x, settings);
  Cards cards(x, settings, plan);
  double gigabytes = static_cast<double>(plan->receive_total()) / 1e9;
  std::vector<double> rates, first, second, cpu, ceiling_cpu;
  uint64_t version = 0, staging = 0;
  double packed_share = 0;
  for (int i = -1; i < settings.repeats; ++i) {  // the first round warms up
    double seconds = cards.ask('p', ++version);
    staging = staging_of(cards.replies);
    packed_share = packed_share_of(cards.replies);
    double used = cpu_of(cards.replies);
    cards.ask('c', version);
    double a = x.wire == "shm" ? cards.ask('1') : cards.ask('r');
    double used_by_ceiling = cpu_of(cards.replies);
    double b = x.wire == "shm" ? cards.ask('2') : a;
    if (i < 0) continue;
    cpu.push_back(used);
    ceiling_cpu.push_back(used_by_ceiling);
    rates.push_back(gigabytes / seconds);
    first.push_back(gigabytes / a);
    second.push_back(gigabytes / b);
  }
  double rate = median(rates);
  std::string ceilings =
      x.wire == "shm"
          ? fmt::format(
                "\"memcpy_gb_per_s\":{:.2f},\"ratio_memcpy\":{:.3f},"
                "\"memcpy_two_threads_gb_per_s\":{:.2f},\"ratio_memcpy_two_threads\":{:.3f}",
                median(first), rate / median(first), median(second), rate / median(second))
          : fmt::format("\"raw_gb_per_s\":{:.2f},\"raw_mad\":{:.2f},\"ratio_raw\":{:.3f}",
                        median(first), median_deviation(first), rate / median(first));
  fmt::print(
      "{},\"gb_per_s\":{:.2f},\"mad\":{:.2f},\"seconds\":{:.3f},\"packed_share\":{:.3f},"
      "\"staging_peak\":{},\"cpu_seconds\":{:.3f},\"ceiling_cpu_seconds\":{:.3f},{}}}\n",
      head(x, settings, *plan), rate, median_deviation(rates), gigabytes / rate, packed_share,
      staging, median(cpu), median(ceiling_cpu), ceilings);
  std::fflush(stdout);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = std::min(argument.find('='), argument.size());
    std::string key = argument.substr(0, equals);
    std::string value = argument.substr(std::min(equals + 1, argument.size()));
    uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "--case")
      settings.only = value;
    else if (key == "--senders")
      settings.senders = static_cast<uint32_t>(number);
    else if (key == "--repeats")
      settings.repeats = static_cast<int>(std::max<uint64_t>(1, number));
    else if (key == "--bucket-mib")
      settings.bucket_bytes = number << 20;
    else if (key == "--chunk-kib")
      settings.chunk_bytes = number << 10;
    else
      std::fprintf(stderr, "publish_bench: unknown argument %s\n", argv[i]);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings = parse(argc, argv);
  auto is_wanted = [&](const std::string& name, uint32_t senders) {
    return (settings.only.empty() || settings.only == name) &&
           (settings.senders == 0 || settings.senders == senders);
  };
  for (const char* wire : {"shm", "tcp"})
    for (uint32_t senders : {1u, 2u})
      if (is_wanted(wire, senders)) run_full({wire, senders}, settings);
  return 0;
}
