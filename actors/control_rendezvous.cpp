#include "actors/control_rendezvous.hpp"

#include <chrono>
#include <utility>

namespace cohort::actors {
namespace {

using control::TableReply;
using control::TableRequest;
using control::TableVerb;

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
    const std::string key = request.key;
    TableReply reply;
    caf::scoped_actor self{system_};
    self->monitor(table_);
    self->send(table_, control::table_atom_v, std::move(request));
    auto fails = [&](Errc code, std::string why) {
      reply.code = static_cast<uint8_t>(code);
      reply.error = std::move(why);
    };
    self->receive(
        [&](TableReply& answer) { reply = std::move(answer); },
        [&](const caf::down_msg&) { fails(Errc::closed, "the table's keeper is gone"); },
        [&](const caf::error& e) { fails(Errc::internal, caf::to_string(e)); },
        caf::after(limit_) >> [&] { fails(Errc::timeout, "the table's keeper does not answer"); });
    self->demonitor(table_.address());
    if (reply.code == 0) return reply;
    return Error{static_cast<Errc>(reply.code),
                 "rendezvous, key '" + key.substr(0, 256) + "': " + reply.error};
  }

  caf::actor_system& system_;
  const TableActor table_;
  const std::chrono::milliseconds limit_;
};

}  // namespace

std::shared_ptr<compute::Rendezvous> control_rendezvous(caf::actor_system& system, TableActor table,
                                                        int limit_ms) {
  return std::make_shared<ControlRendezvous>(system, std::move(table), limit_ms);
}

TableReply answer_table(compute::Rendezvous& table, const TableRequest& request) {
  auto refuse = [](const Error& error) {
    return TableReply{false, {}, static_cast<uint8_t>(error.code), error.detail};
  };
  if (request.verb == TableVerb::get) {
    auto found = table.get(request.key);
    if (!found) return refuse(found.error());
    return {found->has_value(), found->value_or("")};
  }
  if (request.verb == TableVerb::put_if_absent) {
    auto kept = table.put_if_absent(request.key, request.value);
    if (!kept) return refuse(kept.error());
    return {true, std::move(*kept)};
  }
  auto done = table.put(request.key, request.value);
  if (!done) return refuse(done.error());
  return {true, {}};
}

}  // namespace cohort::actors
