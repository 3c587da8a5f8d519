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
  Expected<TableReply> ask(TableRequest request) {
    const std::string key = request.key;
    caf::scoped_actor self{system_};
    Expected<TableReply> reply = Error{Errc::internal, "no answer"};
    self->request(table_, limit_, control::table_atom_v, std::move(request))
        .receive([&](TableReply& answer) { reply = std::move(answer); },
                 [&](const caf::error& e) {
                   reply = control::from_caf(e).with_context("rendezvous, key '" + key + "'");
                 });
    return reply;
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

caf::result<TableReply> answer_table(compute::Rendezvous& table, const TableRequest& request) {
  if (request.verb == TableVerb::get) {
    auto found = table.get(request.key);
    if (!found) return control::to_caf(found.error());
    return TableReply{found->has_value(), found->value_or("")};
  }
  if (request.verb == TableVerb::put_if_absent) {
    auto kept = table.put_if_absent(request.key, request.value);
    if (!kept) return control::to_caf(kept.error());
    return TableReply{true, std::move(*kept)};
  }
  auto done = table.put(request.key, request.value);
  if (!done) return control::to_caf(done.error());
  return TableReply{true, {}};
}

}  // namespace cohort::actors
