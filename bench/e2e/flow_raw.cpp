// The same frames over as many hops with bare ZeroMQ: PUSH to PULL, zero copy at the sending side,
// as many bytes in flight as a link's credit; nobody looks at what arrives. A relay passes on what
// it got and, as a second part, what its hop adds.
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/e2e/flow_roles.hpp"
#include "runtime/base/check.hpp"

namespace cohort::bench {
namespace {

class RawSocket {
 public:
  RawSocket(void* context, int type, const FlowOptions& options, size_t bytes)
      : socket_(zmq_socket(context, type)) {
    const int frames = static_cast<int>(
        std::max<size_t>(2, options.credit_bytes / std::max<size_t>(1, bytes) / 2));
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &frames, sizeof frames);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &frames, sizeof frames);
  }
  void bind(const FlowPipes& pipes) const {
    COHORT_CHECK(zmq_bind(socket_, "tcp://127.0.0.1:*") == 0, "raw bind");
    std::array<char, 256> text{};
    size_t size = text.size();
    zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size);
    tell_endpoint(pipes, text.data());
  }
  void connect(const std::string& endpoint) const {
    COHORT_CHECK(zmq_connect(socket_, endpoint.c_str()) == 0, "raw connect");
  }
  void send(zmq_msg_t* message, bool has_more) const {
    COHORT_CHECK(zmq_msg_send(message, socket_, has_more ? ZMQ_SNDMORE : 0) >= 0, "raw send");
  }
  void send(std::vector<char>& bytes) const {
    zmq_msg_t message;
    zmq_msg_init_data(
        &message, bytes.data(), bytes.size(), [](void*, void*) {}, nullptr);
    send(&message, false);
  }
  void receive(zmq_msg_t* message) const {
    COHORT_CHECK(zmq_msg_recv(message, socket_, 0) >= 0, "raw receive");
  }

 private:
  void* socket_;
};

uint64_t frames_of(const FlowOptions& options, uint64_t steps) {
  return steps * options.step_trajectories() / options.frame_trajectories;
}

void source(const FlowOptions& options, const FlowPipes&, const std::string& next) {
  const auto bytes = frame_bytes(options);
  std::vector<char> frame(bytes[0], 'x');
  RawSocket out(zmq_ctx_new(), ZMQ_PUSH, options, bytes[0]);
  out.connect(next);
  for (uint64_t i = 0; i < frames_of(options, options.warm_up_steps + options.steps); ++i)
    out.send(frame);
  for (;;) ::pause();  // ZeroMQ reads the frame until it has left
}

template <size_t hop>
void relay(const FlowOptions& options, const FlowPipes& pipes, const std::string& next) {
  const auto bytes = frame_bytes(options);
  std::vector<char> added(bytes[hop] - bytes[hop - 1], 'y');
  void* context = zmq_ctx_new();
  RawSocket in(context, ZMQ_PULL, options, bytes[hop - 1]);
  RawSocket out(context, ZMQ_PUSH, options, bytes[hop]);
  out.connect(next);
  in.bind(pipes);
  zmq_msg_t message;
  zmq_msg_init(&message);
  for (;;) {
    bool has_more = false;
    do {
      in.receive(&message);
      has_more = zmq_msg_more(&message) != 0;
      out.send(&message, true);
    } while (has_more);
    out.send(added);
  }
}

void sink(const FlowOptions& options, const FlowPipes& pipes, const std::string&) {
  const auto bytes = frame_bytes(options);
  RawSocket in(zmq_ctx_new(), ZMQ_PULL, options, bytes.back());
  in.bind(pipes);
  zmq_msg_t message;
  zmq_msg_init(&message);
  const uint64_t warm = frames_of(options, options.warm_up_steps);
  const uint64_t last = warm + frames_of(options, options.steps);
  for (uint64_t frame = 0; frame < last; ++frame) {
    if (frame == warm) mark(pipes, 'B');
    do in.receive(&message);
    while (zmq_msg_more(&message) != 0);
  }
  mark(pipes, 'E');
  mark(pipes, 'C');
  for (;;) ::pause();
}

}  // namespace

const std::array<FlowRole, k_flow_processes> k_raw_roles = {source, relay<1>, relay<2>, sink};

}  // namespace cohort::bench
