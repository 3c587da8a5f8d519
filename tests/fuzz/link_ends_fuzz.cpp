// Both ends of a link, fed with whole frames of every kind and with any contents, as a peer that
// has the keys but not our code might send them.
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/consumer_end.hpp"
#include "runtime/transport/producer_session.hpp"
#include "tests/fuzz/bytes.hpp"

namespace {

using namespace cohort;
using namespace cohort::transport;
using namespace cohort::transport::detail;

constexpr uint64_t k_credit_bytes = 1 << 14, k_chunk_bytes = 1024;

LinkOptions options_of_fuzz() {
  LinkOptions options;
  options.endpoint = "inproc://fuzz";
  options.run_id = "run";
  options.name = "end";
  options.credit_bytes = options.queue_bytes = k_credit_bytes;
  options.chunk_bytes = k_chunk_bytes;
  return options;
}

struct Frame {
  FrameHeader header;
  std::string payload, body;
  Part part() const {
    Part part(body.size());
    if (!body.empty()) std::memcpy(part.mutable_bytes().data(), body.data(), body.size());
    return part;
  }
};

/// Handshake frames get a payload that parses as often as one that does not.
Frame frame_of(test::FuzzBytes& in) {
  Frame frame;
  const auto how = in.number<uint8_t>();
  frame.header.kind = static_cast<FrameKind>(how % 11);
  frame.header.seq = in.number<uint8_t>();
  frame.header.chunk = in.number<uint8_t>() % 8;
  frame.header.body_bytes = in.number<uint16_t>();
  frame.header.header_bytes = in.number<uint8_t>();
  frame.header.flags = in.number<uint8_t>();
  frame.header.chunk_count =
      static_cast<uint32_t>(chunk_count_of(frame.header.body_bytes, k_chunk_bytes));
  if (how >= 128) {
    frame.header.seq = in.number<uint64_t>();
    frame.header.body_bytes = in.number<uint64_t>();
    frame.header.chunk_count = in.number<uint32_t>();
  }
  frame.payload = std::string(in.piece(frame.header.header_bytes));
  if (frame.header.kind == FrameKind::hello && (how & 64) == 0)
    frame.payload =
        proto::encode_hello({frame.header.flags % 3u, 1, "run", "peer", frame.header.seq,
                             frame.header.body_bytes, k_chunk_bytes, 1000});
  if (frame.header.kind == FrameKind::welcome && (how & 64) == 0)
    frame.payload =
        proto::encode_welcome({1, frame.header.seq, frame.header.chunk, frame.header.seq,
                               frame.header.body_bytes, k_credit_bytes, "peer"});
  if (frame.header.kind == FrameKind::data) {
    frame.payload.resize(frame.header.chunk == 0 ? frame.header.header_bytes : 0);
    frame.body.resize(
        chunk_size_of(frame.header.body_bytes % (1 << 16), k_chunk_bytes, frame.header.chunk));
    frame.header.body_checksum = tensor::checksum64(test::bytes_of(frame.body));
  }
  return frame;
}

class FuzzConsumer final : public ConsumerPort {
 public:
  IoResult send(uint64_t, const FrameHeader&, std::string_view) override { return IoResult::done; }
  void deliver(const Session& session, uint64_t seq, Message message) override {
    COHORT_CHECK(message.header.size() + message.body.size_bytes() <= k_credit_bytes, "LINK-3");
    COHORT_CHECK(seq == session.next_seq() - 1, "LINK-1");
    delivered.push_back({session.id(), session.slot(), seq});
  }
  void on_peer_lost(const std::string&, Error error) override {
    COHORT_CHECK(!error.detail.empty(), "a reason");
  }
  std::string where() const override { return "fuzz"; }
  struct Delivered {
    uint64_t id, slot, seq;
  };
  std::vector<Delivered> delivered;
};

class FuzzProducer final : public ProducerPort {
 public:
  IoResult send(const FrameHeader&, std::string_view, tensor::Buffer) override {
    return IoResult::done;
  }
  void reconnect() override {}
  bool is_stuck() const override { return false; }
  bool has_moved() override { return false; }
  std::string where() const override { return "fuzz"; }
  void on_credit(uint64_t) override {}
  void on_acked(std::vector<ProducerItem> done, size_t) override {
    for (const ProducerItem& item : done) COHORT_CHECK(item.seq == ++acked, "in order, once");
  }
  void on_outage(Error) override {}
  void on_dead(Error error) override { COHORT_CHECK(!error.detail.empty(), "a reason"); }
  uint64_t acked = 0;
};

void feed_consumer(test::FuzzBytes& in) {
  const LinkOptions options = options_of_fuzz();
  FuzzConsumer port;
  Counters counters;
  ConsumerEnd end(options, port, counters);
  int64_t now = 1000;
  for (int frames = 0; frames < 64 && !in.empty(); ++frames) {
    const auto what = in.number<uint8_t>();
    Frame frame = frame_of(in);
    frame.header.session = what & 3;
    end.on_frame(what & 3, (what & 4) != 0 ? nullptr : &frame.header, test::bytes_of(frame.payload),
                 frame.part(), now);
    if ((what & 8) != 0 && !port.delivered.empty()) {
      const auto& x = port.delivered[what % port.delivered.size()];
      end.ack(x.id, x.slot, x.seq, now);
    }
    if ((what & 16) != 0) now += 700;
    if ((what & 32) != 0) end.on_timers(now);
    end.flush_acks(now);
  }
  end.say_bye();
}

void feed_producer(test::FuzzBytes& in) {
  const LinkOptions options = options_of_fuzz();
  FuzzProducer port;
  Counters counters;
  ProducerBooks books(options);
  ProducerSession session(1, options, port, counters);
  int64_t now = 1000;
  session.start(now);
  for (int frames = 0; frames < 64 && !in.empty(); ++frames) {
    const auto what = in.number<uint8_t>();
    if ((what & 1) != 0) {
      Message message;
      message.body = tensor::Buffer::allocate(size_t{what} * 16);
      std::memset(message.body.mutable_bytes().data(), 0, message.body.size_bytes());
      if (auto item = books.admit(std::move(message), {})) session.push(std::move(*item));
    }
    const Frame frame = frame_of(in);
    session.on_frame(frame.header, test::bytes_of(frame.payload), now);
    if ((what & 2) != 0) now += 700;
    session.on_timers(now);
    for (int i = 0; i < 4 && session.send_some(); ++i) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool is_quiet = log::open("/dev/null", log::Level::error).has_value();
  if (!is_quiet) return 0;
  test::FuzzBytes in(data, size);
  (in.number<uint8_t>() & 1) != 0 ? feed_consumer(in) : feed_producer(in);
  return 0;
}
