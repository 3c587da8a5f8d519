#pragma once
/// The producer's pump: one thread that owns the DEALER socket and runs a ProducerSession. Internal
/// to runtime/transport. Shared state is behind mutex_; everything under "pump only" is touched by
/// the pump thread alone.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/transport/producer_session.hpp"

namespace cohort::transport::detail {

class SenderPump final : ProducerPort {
 public:
  SenderPump(std::shared_ptr<Context::Handle> context, LinkOptions options,
             Sender::OnFailed on_failed);
  ~SenderPump();
  Expected<void> start();
  Expected<uint64_t> send(Message message, Sender::OnAcked on_acked);
  size_t pending_bytes() const;
  bool wait_drained(int timeout_ms);
  LinkStats stats() const { return counters_.read(); }

 private:
  // ProducerPort
  IoResult send(const FrameHeader& header, std::string_view payload, tensor::Buffer chunk) override;
  void reconnect() override;
  bool is_stuck() const override;
  bool has_moved() override;
  std::string where() const override;
  void on_credit(uint64_t bytes) override;
  void on_acked(std::vector<ProducerItem> done, size_t cost) override;
  void on_outage(Error error) override;
  void on_dead(Error error) override;

  Expected<void> open_socket();
  void run();
  void sleep();
  void take_inbox();
  bool receive_some();

  const std::shared_ptr<Context::Handle> context_;
  const LinkOptions options_;
  const Sender::OnFailed on_failed_;
  Wake wake_;

  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<ProducerItem> inbox_;
  ProducerBooks books_;
  bool is_calling_back_ = false;  // acknowledged, but on_acked has not returned
  std::optional<Error> dead_;
  std::atomic<bool> is_stopping_{false};
  Counters counters_;

  // pump only
  Socket socket_;
  std::string endpoint_;    // where the consumer is, as far as we know; empty: nobody knows
  std::string open_error_;  // of the last try, so that the log says it once
  ProducerSession session_;
  std::vector<ProducerItem> taken_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace cohort::transport::detail
