#include "actors/node/control_rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace cohort::actors {
namespace {

using control::TableReply;
using control::TableRequest;
using control::TableVerb;
using Clock = std::chrono::steady_clock;

// Rendezvous's bounds: what is over them does not leave, the control plane would cut it off.
constexpr size_t k_key_max = 1 << 10, k_value_max = 64 << 10;

class ControlRendezvous final : public compute::Rendezvous {
 public:
  ControlRendezvous(caf::actor_system& system, TableActor table, int limit_ms)
      : system_(system), table_(std::move(table)), limit_(limit_ms) {}

  Expected<void> put(const std::string& key, const std::string& value) override {
    COHORT_ASSIGN(const TableReply ignored, ask({TableVerb::put, key, value}));
    return {};
  }
  Expected<std::string> put_if_absent(const std::string& key, const std::string& value) override {
    COHORT_ASSIGN(TableReply reply, ask({TableVerb::put_if_absent, key, value}));
    return std::move(reply.value);
  }
  Expected<std::optional<std::string>> get(const std::string& key) override {
    COHORT_ASSIGN(TableReply reply, ask({TableVerb::get, key, {}}));
    if (!reply.has_value) return std::optional<std::string>();
    return std::optional(std::move(reply.value));
  }

 private:
  /// Not a request: CAF fails none whose receiver dies, it only tells who monitors it.
  Expected<TableReply> ask(TableRequest request) {
    const auto end = Clock::now() + limit_;
    const std::string what = "rendezvous, key '" + request.key.substr(0, 256) + "': ";
    if (request.key.size() > k_key_max || request.value.size() > k_value_max)
      return Error{Errc::capacity, what + std::to_string(request.value.size()) +
                                       " bytes; a key has 1 KiB at most, a value 64 KiB"};
    const Error silent{Errc::timeout, what + "the table's keeper does not answer"};
    std::unique_lock lock(mutex_, end);
    if (!lock.owns_lock()) return silent;
    if (!self_) {
      self_ = std::make_unique<caf::scoped_actor>(system_, true);
      (*self_)->monitor(table_);
    }
    caf::scoped_actor& self = *self_;
    if (!is_gone_) self->send(table_, control::table_atom_v, std::move(request));
    TableReply reply;
    bool is_late = false;
    if (!is_gone_)
      self->receive([&](TableReply& answer) { reply = std::move(answer); },
                    [&](const caf::down_msg&) { is_gone_ = true; },
                    caf::after(std::max(Clock::duration::zero(), end - Clock::now())) >>
                        [&] { is_late = true; });
    if (is_gone_) return Error{Errc::closed, what + "the table's keeper is gone"};
    if (is_late) self_.reset();  // an answer that still comes is nobody's
    if (is_late) return silent;
    if (reply.code == 0) return reply;
    return Error{static_cast<Errc>(reply.code), what + reply.error};
  }

  caf::actor_system& system_;
  const TableActor table_;
  const std::chrono::milliseconds limit_;
  std::timed_mutex mutex_;  // one request at a time, by an actor that stays: each is known there
  std::unique_ptr<caf::scoped_actor> self_;
  bool is_gone_ = false;
};

}  // namespace

std::shared_ptr<compute::Rendezvous> control_rendezvous(caf::actor_system& system, TableActor table,
                                                        int limit_ms) {
  return std::make_shared<ControlRendezvous>(system, std::move(table), limit_ms);
}

TableReply answer_table(compute::Rendezvous& table, const TableRequest& request) {
  TableReply reply;
  auto refuse = [&](const Error& error) {
    reply.code = static_cast<uint8_t>(error.code);
    reply.error = error.detail;
  };
  if (request.verb == TableVerb::get) {
    auto found = table.get(request.key);
    if (!found) refuse(found.error());
    if (found) reply.has_value = found->has_value();
    if (reply.has_value) reply.value = std::move(**found);
  } else if (request.verb == TableVerb::put_if_absent) {
    auto kept = table.put_if_absent(request.key, request.value);
    if (!kept) refuse(kept.error());
    if (kept) reply.value = std::move(*kept);
  } else if (auto done = table.put(request.key, request.value); !done) {
    refuse(done.error());
  }
  return reply;
}

}  // namespace cohort::actors
