#pragma once
/// Reward or reference, simulated around the real Relay: a frame goes on when all of it is worked
/// on, and is acknowledged when the next has acknowledged it. One thread. Bound: the credit of its
/// producers.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/transport/relay.hpp"
#include "tools/cohort-sim/link_ends.hpp"
#include "tools/cohort-sim/sim_job.hpp"

namespace cohort::sim {

class SimHop {
 public:
  /// `label`: what its link to `output` is called, up to the arrow. The hop "reward" scores.
  SimHop(Stage& stage, const Job& job, Process& self, const std::string& label,
         const std::string& input, const std::string& output, SimReceiver::OnPeerLost on_peer_lost)
      : stage_(stage),
        self_(self),
        is_reward_(input == "reward"),
        output_(stage, self, output, named(job.link, label + output, output)),
        relay_([this] {
          if (stage_.plant != Plant::hop_never_flushes)
            stage_.world.post(self_, 0, [this] { flush(); });
        }),
        input_(
            stage, self, input,
            named(job.link, input, stage.plant == Plant::wrong_door ? "" : input),
            [this](const SimTicket& ticket) { on_delivery(ticket); }, std::move(on_peer_lost)) {}

 private:
  void on_delivery(const SimTicket& ticket) {
    // Scored side by side: the frame leaves when the last of it has its score.
    int64_t longest = 0;
    for (size_t i = 0; i < ticket->message.header.size() / sizeof(Item); ++i)
      longest = std::max(longest, stage_.world.pick(0, 30));
    stage_.world.post(self_, longest, [this, ticket] { finish(ticket); });
  }
  void finish(const SimTicket& ticket) {
    std::vector<Item> items = unpack(ticket->message.header);
    if (is_reward_)
      for (Item& item : items) item.score = score_of(item.content);
    auto sent = relay_.forward(output_, {1, pack(items), ticket->message.body}, ticket);
    if (!sent) stage_.world.violate("FLOW-4", sent.error().to_string());
  }
  void flush() {
    if (auto left = relay_.flush(output_); !left)
      stage_.world.violate("FLOW-4", left.error().to_string());
  }

  Stage& stage_;
  Process& self_;
  const bool is_reward_;
  SimSender output_;
  transport::Relay<SimSender, SimTicket> relay_;
  SimReceiver input_;
};

}  // namespace cohort::sim
