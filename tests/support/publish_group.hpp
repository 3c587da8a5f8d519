#pragma once
/// A publish group whose cards are threads of the test: flat buffers, one member per card, over
/// inproc, shared memory or loopback links. Bytes are checked against apply_reshard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/publish/ports.hpp"
#include "tests/support/reshard_executor.hpp"

namespace cohort::test {

using Bytes = std::vector<std::byte>;

inline void fill_random(Bytes& bytes, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = rng.next_u64();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
  }
}

/// Shards of one random model in the plan's old layout, by index of plan.cards, elements
/// `element_bytes` wide: replicas hold equal bytes, as trained ones do.
inline std::vector<Bytes> random_shards(const plan::ReshardPlan& plan, uint64_t element_bytes,
                                        uint64_t seed) {
  plan::ModelTensors model = plan.model;
  for (plan::TensorSpec& x : model.tensors) x.element_bytes = element_bytes;
  plan::ShardLayout whole;
  whole.name = "whole";
  whole.ranks = {plan.cards.back()};
  whole.ranks[0].value += 1;  // none of the plan's: the last of the spread's cards
  plan::ReshardOptions options;
  options.permute_experts = false;
  auto spread = plan::plan_reshard(model, whole, plan.from, options);
  EXPECT_TRUE(spread) << spread.error().to_string();
  std::vector<Bytes> buffers(spread->cards.size());
  buffers.back().resize(plan::model_bytes(model));
  fill_random(buffers.back(), seed);
  auto shards = plan::apply_reshard(*spread, buffers);
  EXPECT_TRUE(shards) << shards.error().to_string();
  std::vector<Bytes> result(plan.cards.size());
  for (size_t i = 0; i + 1 < spread->cards.size(); ++i) {
    auto card = std::ranges::lower_bound(plan.cards, spread->cards[i]);
    result[static_cast<size_t>(card - plan.cards.begin())] = std::move((*shards)[i]);
  }
  return result;
}

/// Returns a port of wire "inproc", "shm" or "tcp".
struct PortMaker {
  std::shared_ptr<publish::InprocHub> hub = std::make_shared<publish::InprocHub>();
  transport::Context context;
  int peer_timeout_ms = 60000;  // an end is seen by its closed connection

  std::unique_ptr<publish::Port> make(const std::string& wire) {
    if (wire == "inproc") return std::move(*publish::open_inproc_port(hub));
    if (wire == "shm") return std::move(*publish::open_shared_port());
    publish::LinkPortOptions options;
    options.context = &context;
    options.link.endpoint = "tcp://127.0.0.1:*";
    options.link.run_id = "publish-test";
    options.link.heartbeat_ms = 100;
    options.link.peer_timeout_ms = peer_timeout_ms;
    return std::move(*publish::open_link_port(options));
  }
};

class PublishGroup {
 public:
  using Wrap =
      std::function<std::unique_ptr<publish::Port>(size_t, std::unique_ptr<publish::Port>)>;
  struct Options {
    std::string wire = "inproc";
    tensor::Dtype from = tensor::Dtype::f64, to = tensor::Dtype::f64;
    uint64_t chunk_bytes = uint64_t{1} << 20;
    int timeout_ms = 20000;
    Wrap wrap;  // e.g. a port that damages
  };

  PublishGroup(plan::ReshardPlan plan, Options options)
      : plan_(std::make_shared<plan::ReshardPlan>(std::move(plan))), options_(std::move(options)) {
    plan::ReshardCopies copies(*plan_);
    uint64_t widen = tensor::size_of(options_.from) / tensor::size_of(options_.to);
    for (uint32_t i = 0; i < plan_->cards.size(); ++i) {
      before.emplace_back(copies.bytes_before(i) * widen);
      after.emplace_back(copies.bytes_after(i), k_poison);
      served.emplace_back(copies.bytes_after(i), k_poison);
      tables_.push_back({{shards_before_, plan_->cards[i]}, {shards_after_, plan_->cards[i]}});
    }
    for (size_t i = 0; i < plan_->cards.size(); ++i) open(i, widen);
    std::vector<std::string> endpoints;
    for (const auto& member : members) endpoints.push_back(member->endpoint());
    for (const auto& member : members) {
      auto connected = member->connect(endpoints);
      EXPECT_TRUE(connected) << connected.error().to_string();
    }
  }
  ~PublishGroup() { members.clear(); }

  const plan::ReshardPlan& plan() const { return *plan_; }
  size_t size() const { return members.size(); }

  void begin(uint64_t version) {
    for (const auto& member : members) {
      auto begun = member->begin(version);
      EXPECT_TRUE(begun) << begun.error().to_string();
    }
  }
  std::vector<Expected<publish::PublishReport>> wait(uint64_t version) {
    std::vector<Expected<publish::PublishReport>> results;
    for (const auto& member : members) results.push_back(member->wait(version));
    return results;
  }
  /// All must arrive.
  std::vector<publish::PublishReport> publish(uint64_t version) {
    begin(version);
    std::vector<publish::PublishReport> reports;
    for (auto& result : wait(version)) {
      EXPECT_TRUE(result) << result.error().to_string();
      reports.push_back(result ? *result : publish::PublishReport{});
    }
    return reports;
  }
  /// Makes what has arrived the served version, as an engine does by turning its two buffers.
  void commit(uint64_t version) {
    for (size_t i = 0; i < members.size(); ++i) {
      EXPECT_TRUE(members[i]->commit(version));
      std::swap(after[i], served[i]);
    }
  }
  /// Sources in the type that travels must have become what apply_reshard makes of them.
  void expect_bytes(const std::vector<Bytes>& cast_before) {
    auto expected = plan::apply_reshard(*plan_, cast_before);
    ASSERT_TRUE(expected) << expected.error().to_string();
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_TRUE((*expected)[i] == after[i]) << "card " << plan_->cards[i].value;
  }

  std::vector<Bytes> before, after, served;  // by index of plan.cards
  std::vector<std::unique_ptr<publish::Member>> members;

 private:
  static constexpr std::byte k_poison{0xEE};
  struct Tables {
    publish::PartTable before, after;
  };

  void open(size_t i, uint64_t widen) {
    publish::MemberOptions x;
    x.plan = plan_;
    x.card = plan_->cards[i];
    x.labels = labels();
    x.from = options_.from;
    x.to = options_.to;
    x.chunk_bytes = options_.chunk_bytes;
    x.timeout_ms = options_.timeout_ms;
    x.source = [this, i, widen](const publish::PartName& name) {
      return publish::flat_source(tables_[i].before, before[i], widen)(name);
    };
    x.target = [this, i](const publish::PartName& name) {
      return publish::flat_target(tables_[i].after, after[i])(name);
    };
    auto port = ports_.make(options_.wire);
    if (options_.wrap) port = options_.wrap(i, std::move(port));
    auto member = publish::Member::open(std::move(x), std::move(port));
    EXPECT_TRUE(member) << member.error().to_string();
    members.push_back(std::move(*member));
  }
  std::vector<std::string> labels() const {
    std::vector<std::string> labels;
    for (CardId card : plan_->cards) labels.push_back("card " + std::to_string(card.value));
    return labels;
  }

  PortMaker ports_;
  std::shared_ptr<plan::ReshardPlan> plan_;
  Options options_;
  plan::Shards shards_before_{plan_->model, plan_->from}, shards_after_{plan_->model, plan_->to};
  std::vector<Tables> tables_;
};

}  // namespace cohort::test
