#pragma once
/// A man in the middle for links: forwards frames both ways and, by seed, drops, doubles, swaps or
/// damages them. One thread; ends when destroyed.
#include <zmq.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"

namespace cohort::transport::test {

struct Harm {
  double drop = 0, repeat = 0, swap = 0, flip = 0;  // probability per frame
};

class LossyProxy {
 public:
  LossyProxy(std::string front, std::string back, Harm harm, uint64_t seed)
      : back_(std::move(back)), harm_(harm), rng_(seed), context_(zmq_ctx_new()) {
    front_ = open(ZMQ_ROUTER);
    zmq_bind(front_, front.c_str());
    std::array<char, 256> text{};
    size_t size = text.size();
    zmq_getsockopt(front_, ZMQ_LAST_ENDPOINT, text.data(), &size);
    endpoint_ = text.data();
    thread_ = std::thread([this] { run(); });
  }
  ~LossyProxy() {
    is_stopping_ = true;
    thread_.join();
    for (auto& [identity, socket] : backs_) zmq_close(socket);
    zmq_close(front_);
    zmq_ctx_term(context_);
  }
  LossyProxy(const LossyProxy&) = delete;
  LossyProxy& operator=(const LossyProxy&) = delete;
  const std::string& endpoint() const { return endpoint_; }
  uint64_t harmed() const { return harmed_; }

 private:
  using Frame = std::vector<std::string>;

  void* open(int type) {
    void* socket = zmq_socket(context_, type);
    int linger = 0, no_limit = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof(no_limit));
    zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof(no_limit));
    return socket;
  }

  static bool receive(void* socket, Frame& frame) {
    frame.clear();
    zmq_msg_t part;
    zmq_msg_init(&part);
    bool has_more = true;
    while (has_more && zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) >= 0) {
      frame.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      has_more = zmq_msg_more(&part) != 0;
    }
    zmq_msg_close(&part);
    return !frame.empty();
  }

  static void send(void* socket, const Frame& frame) {
    for (size_t i = 0; i < frame.size(); ++i)
      zmq_send(socket, frame[i].data(), frame[i].size(),
               ZMQ_DONTWAIT | (i + 1 < frame.size() ? ZMQ_SNDMORE : 0));
  }

  /// Sends `frame`, harmed or not; a swapped frame waits in `held` for the next one.
  void pass(void* socket, Frame frame, size_t first_part, Frame& held) {
    double dice = rng_.uniform();
    auto hit = [&](double probability) {
      bool is_hit = dice >= 0 && dice < probability;
      dice -= probability;
      harmed_ += is_hit ? 1 : 0;
      if (is_hit) dice = -1;
      return is_hit;
    };
    if (hit(harm_.drop)) return;
    bool is_repeated = hit(harm_.repeat);
    if (hit(harm_.swap) && held.empty()) {
      held = std::move(frame);
      return;
    }
    if (hit(harm_.flip)) {
      std::string& part = frame[first_part + rng_.below(frame.size() - first_part)];
      if (!part.empty()) {
        char& c = part[rng_.below(part.size())];
        c = static_cast<char>(c ^ (1 << rng_.below(8)));
      }
    }
    send(socket, frame);
    if (is_repeated) send(socket, frame);
    if (!held.empty()) send(socket, std::exchange(held, {}));
  }

  void* back_of(const std::string& identity) {
    auto [found, is_new] = backs_.try_emplace(identity, nullptr);
    if (is_new) {
      found->second = open(ZMQ_DEALER);
      zmq_setsockopt(found->second, ZMQ_ROUTING_ID, identity.data(), identity.size());
      zmq_connect(found->second, back_.c_str());
    }
    return found->second;
  }

  void run() {
    Frame frame;
    while (!is_stopping_) {
      std::vector<zmq_pollitem_t> items = {{front_, 0, ZMQ_POLLIN, 0}};
      for (auto& [identity, socket] : backs_) items.push_back({socket, 0, ZMQ_POLLIN, 0});
      zmq_poll(items.data(), static_cast<int>(items.size()), 10);
      while (receive(front_, frame)) {
        std::string identity = frame[0];
        frame.erase(frame.begin());
        if (!frame.empty()) pass(back_of(identity), std::move(frame), 0, held_up_[identity]);
      }
      for (auto& [identity, socket] : backs_)
        while (receive(socket, frame)) {
          frame.insert(frame.begin(), identity);
          pass(front_, std::move(frame), 1, held_down_[identity]);
        }
    }
  }

  const std::string back_;
  const Harm harm_;
  Rng rng_;
  void* context_;
  void* front_ = nullptr;
  std::string endpoint_;
  std::map<std::string, void*> backs_;
  std::map<std::string, Frame> held_up_, held_down_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> harmed_{0};
  std::thread thread_;
};

}  // namespace cohort::transport::test
