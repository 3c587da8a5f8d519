// Links against raw ZeroMQ and memcpy, by size and wire; one JSON line each.
//   transport_bench [--wire=inproc|ipc|tcp] [--size=BYTES] [--repeats=7] [--io-threads=1]
// Raw = the same socket types (DEALER to ROUTER), the same two parts per frame, zero copy on the
// sending side, at most as many bytes in flight as a link grants, every byte read once at each end
// (64-bit sums). Ours = a link as it is used: xxh3 of every byte at both ends, credit,
// acknowledgement of every message. Raw and link run in turns; figures are medians over the
// repeats.
#include <fmt/format.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/transport/link.hpp"

namespace {

using namespace cohort;
using transport::Context;
using transport::Delivery;
using transport::LinkOptions;
using transport::Message;
using transport::Receiver;
using transport::Sender;

constexpr size_t k_in_flight_bytes = size_t{64} << 20;
constexpr size_t k_working_set_bytes = size_t{32} << 20;  // of different source bytes

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Case {
  std::string wire;
  size_t size_bytes;
  size_t count;  // messages per repeat
  size_t latency_count;
};

struct Settings {
  std::string wire;
  size_t size_bytes = 0;
  int repeats = 7;
  int io_threads = 1;
};

uint64_t read_all(const void* data, size_t size_bytes) {
  std::array<uint64_t, 8> sums{};
  const char* bytes = static_cast<const char*>(data);
  size_t i = 0;
  for (; i + 64 <= size_bytes; i += 64) {
    std::array<uint64_t, 8> words;
    std::memcpy(words.data(), bytes + i, 64);
    for (size_t k = 0; k < 8; ++k) sums[k] += words[k];
  }
  uint64_t sum = 0;
  for (uint64_t x : sums) sum += x;
  for (; i < size_bytes; ++i) sum += static_cast<unsigned char>(bytes[i]);
  return sum;
}

std::atomic<uint64_t> g_sink{0};  // keeps the reads alive

std::vector<tensor::Buffer> make_sources(size_t size_bytes) {
  size_t count = std::clamp<size_t>(k_working_set_bytes / size_bytes, 2, 64);
  std::vector<tensor::Buffer> sources;
  for (size_t i = 0; i < count; ++i) {
    sources.push_back(tensor::Buffer::allocate(size_bytes));
    std::memset(sources.back().mutable_bytes().data(), static_cast<int>(i + 1), size_bytes);
  }
  return sources;
}

std::string endpoint_of(const std::string& wire) {
  static int count = 0;
  if (wire == "tcp") return "tcp://127.0.0.1:*";
  std::string unique = fmt::format("bench.{}.{}", ::getpid(), count++);
  return wire == "ipc" ? "ipc:///tmp/cohort-" + unique : "inproc://" + unique;
}

void release_buffer(void*, void* hint) { delete static_cast<tensor::Buffer*>(hint); }

void raw_send(void* socket, const std::vector<tensor::Buffer>& sources, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const tensor::Buffer& source = sources[i % sources.size()];
    sum += read_all(source.bytes().data(), source.size_bytes());
    std::array<char, 64> head{};
    zmq_send(socket, head.data(), head.size(), ZMQ_SNDMORE);
    zmq_msg_t body;
    auto* owner = new tensor::Buffer(source);
    zmq_msg_init_data(&body, const_cast<std::byte*>(owner->bytes().data()), owner->size_bytes(),
                      release_buffer, owner);
    COHORT_CHECK(zmq_msg_send(&body, socket, 0) >= 0, "raw send");
  }
  g_sink += sum;
}

void raw_receive(void* socket, size_t count) {
  uint64_t sum = 0;
  zmq_msg_t part;
  zmq_msg_init(&part);
  for (size_t i = 0; i < count; ++i) do {
      COHORT_CHECK(zmq_msg_recv(&part, socket, 0) >= 0, "raw receive");
      sum += read_all(zmq_msg_data(&part), zmq_msg_size(&part));
    } while (zmq_msg_more(&part) != 0);
  zmq_msg_close(&part);
  g_sink += sum;
}

/// A raw pair that lives for all repeats of a case.
class RawPair {
 public:
  RawPair(const Case& x, int io_threads) : context_(zmq_ctx_new()) {
    zmq_ctx_set(context_, ZMQ_IO_THREADS, io_threads);
    router_ = zmq_socket(context_, ZMQ_ROUTER);
    dealer_ = zmq_socket(context_, ZMQ_DEALER);
    int linger = 0;
    // inproc adds both water marks up; the bound is the same as a link's credit.
    int frames =
        static_cast<int>(std::clamp<size_t>(k_in_flight_bytes / x.size_bytes / 2, 2, 100000));
    for (void* socket : {router_, dealer_}) {
      zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
      zmq_setsockopt(socket, ZMQ_SNDHWM, &frames, sizeof(frames));
      zmq_setsockopt(socket, ZMQ_RCVHWM, &frames, sizeof(frames));
    }
    COHORT_CHECK(zmq_bind(router_, endpoint_of(x.wire).c_str()) == 0, "raw bind");
    std::array<char, 256> resolved{};
    size_t size = resolved.size();
    zmq_getsockopt(router_, ZMQ_LAST_ENDPOINT, resolved.data(), &size);
    COHORT_CHECK(zmq_connect(dealer_, resolved.data()) == 0, "raw connect");
  }
  ~RawPair() {
    zmq_close(dealer_);
    zmq_close(router_);
    zmq_ctx_term(context_);
  }
  RawPair(const RawPair&) = delete;
  RawPair& operator=(const RawPair&) = delete;

  double run(const std::vector<tensor::Buffer>& sources, size_t count) {
    double begin = now();
    std::thread producer([&] { raw_send(dealer_, sources, count); });
    raw_receive(router_, count);
    double seconds = now() - begin;
    producer.join();
    return seconds;
  }

 private:
  void* context_;
  void* router_ = nullptr;
  void* dealer_ = nullptr;
};

class LinkPair {
 public:
  LinkPair(const Case& x, int io_threads) : context_(io_threads) {
    LinkOptions options;
    options.endpoint = endpoint_of(x.wire);
    options.run_id = "bench";
    options.name = "bench";
    auto receiver =
        Receiver::open(context_, options, [](Delivery delivery) { delivery.ack(); }, {});
    COHORT_CHECK(receiver, receiver.error().to_string());
    receiver_ = std::move(*receiver);
    options.endpoint = receiver_->endpoint();
    auto sender = Sender::open(context_, options,
                               [](Error error) { COHORT_CHECK(false, error.to_string()); });
    COHORT_CHECK(sender, sender.error().to_string());
    sender_ = std::move(*sender);
  }

  double run(const std::vector<tensor::Buffer>& sources, size_t count) {
    double begin = now();
    for (size_t i = 0; i < count; ++i) send(sources[i % sources.size()]);
    COHORT_CHECK(sender_->wait_drained(60000), "link drains");
    return now() - begin;
  }

  /// Returns seconds from send() to on_acked, one message at a time.
  std::vector<double> latencies(const tensor::Buffer& source, size_t count) {
    std::vector<double> result;
    for (size_t i = 0; i < count; ++i) {
      std::atomic<int> is_acked{0};
      double begin = now();
      double end = 0;
      auto sent = sender_->send(Message{1, "header", source}, [&](uint64_t) {
        end = now();
        is_acked.store(1);
        is_acked.notify_one();
      });
      COHORT_CHECK(sent, "latency send");
      is_acked.wait(0);
      result.push_back(end - begin);
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  void send(const tensor::Buffer& source) {
    for (;;) {
      auto sent = sender_->send(Message{1, "header", source}, [this](uint64_t) {
        if (is_waiting_.exchange(false)) {
          std::lock_guard lock(mutex_);
          room_.notify_one();
        }
      });
      if (sent) return;
      COHORT_CHECK(sent.error().code == Errc::backpressure, sent.error().to_string());
      std::unique_lock lock(mutex_);
      is_waiting_ = true;
      room_.wait_for(lock, std::chrono::milliseconds(5), [this] { return !is_waiting_; });
    }
  }

  Context context_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::atomic<bool> is_waiting_{false};
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<Sender> sender_;
};

double run_memcpy(const std::vector<tensor::Buffer>& sources, size_t count) {
  std::vector<tensor::Buffer> targets = make_sources(sources[0].size_bytes());
  double begin = now();
  for (size_t i = 0; i < count; ++i)
    std::memcpy(targets[i % targets.size()].mutable_bytes().data(),
                sources[i % sources.size()].bytes().data(), sources[0].size_bytes());
  double seconds = now() - begin;
  g_sink += read_all(targets[0].bytes().data(), targets[0].size_bytes());
  return seconds;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.size() % 2 == 1 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
}

double median_deviation(std::vector<double> x) {
  double middle = median(x);
  for (double& value : x) value = value > middle ? value - middle : middle - value;
  return median(x);
}

std::string commit() {
  std::string text;
  if (FILE* pipe =
          ::popen("git -C " COHORT_SOURCE_DIR " rev-parse --short HEAD 2>/dev/null", "r")) {
    std::array<char, 64> buffer{};
    if (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr)
      text = buffer.data();
    ::pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "unknown" : text;
}

void run_case(const Case& x, const Settings& settings) {
  std::vector<tensor::Buffer> sources = make_sources(x.size_bytes);
  RawPair raw(x, settings.io_threads);
  LinkPair link(x, settings.io_threads);
  double mebibytes = static_cast<double>(x.size_bytes * x.count) / 1e6;
  std::vector<double> raw_rates, link_rates, copy_rates;
  for (int i = -1; i < settings.repeats; ++i) {  // the first round warms up
    double raw_seconds = raw.run(sources, x.count);
    double link_seconds = link.run(sources, x.count);
    double copy_seconds = run_memcpy(sources, x.count);
    if (i < 0) continue;
    raw_rates.push_back(mebibytes / raw_seconds);
    link_rates.push_back(mebibytes / link_seconds);
    copy_rates.push_back(mebibytes / copy_seconds);
  }
  std::vector<double> latency = link.latencies(sources[0], x.latency_count);
  double rate = median(link_rates);
  std::printf(
      "%s\n",
      fmt::format("{{\"bench\":\"transport\",\"wire\":\"{}\",\"size_bytes\":{},\"mb_per_s\":{:.1f},"
                  "\"mad\":{:.1f},"
                  "\"raw_mb_per_s\":{:.1f},\"raw_mad\":{:.1f},\"ratio_raw\":{:.3f},\"memcpy_mb_per_"
                  "s\":{:.1f},"
                  "\"ratio_memcpy\":{:.3f},\"acks_per_s\":{:.0f},\"latency_p50_us\":{:.1f},"
                  "\"latency_p99_us\":{:.1f},"
                  "\"n\":{},\"messages\":{},\"io_threads\":{},\"cores\":{},\"build\":\"{}\","
                  "\"commit\":\"{}\"}}",
                  x.wire, x.size_bytes, rate, median_deviation(link_rates), median(raw_rates),
                  median_deviation(raw_rates), rate / median(raw_rates), median(copy_rates),
                  rate / median(copy_rates), rate * 1e6 / static_cast<double>(x.size_bytes),
                  1e6 * latency[latency.size() / 2], 1e6 * latency[latency.size() * 99 / 100],
                  settings.repeats, x.count, settings.io_threads,
                  std::thread::hardware_concurrency(), COHORT_BUILD_TYPE, commit())
          .c_str());
  std::fflush(stdout);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = argument.find('=');
    std::string key = argument.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (key == "--wire")
      settings.wire = value;
    else if (key == "--size")
      settings.size_bytes = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "--repeats")
      settings.repeats = std::max(1, std::atoi(value.c_str()));
    else if (key == "--io-threads")
      settings.io_threads = std::max(1, std::atoi(value.c_str()));
    else
      std::fprintf(stderr, "transport_bench: unknown argument %s\n", argv[i]);
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings = parse(argc, argv);
  struct Size {
    size_t bytes, count, latency_count;
  };
  // About 0.1 s to 0.5 s per repeat. 50,000 B is a FrozenLake batch.
  for (Size size : {Size{1 << 10, 100000, 2000}, Size{50000, 8000, 2000},
                    Size{64 << 10, 8000, 1000}, Size{1 << 20, 512, 300}, Size{16 << 20, 32, 30}})
    for (const char* wire : {"inproc", "ipc", "tcp"})
      if ((settings.wire.empty() || settings.wire == wire) &&
          (settings.size_bytes == 0 || settings.size_bytes == size.bytes))
        run_case({wire, size.bytes, size.count, size.latency_count}, settings);
  return 0;
}
