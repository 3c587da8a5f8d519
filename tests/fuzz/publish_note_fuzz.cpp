// Notes and bodies of the other cards, as a card that receives weights takes them: of any contents,
// and nearly right ones, so that what is behind the first checks is reached.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/publish/member.hpp"
#include "runtime/tensor/checksum.hpp"
#include "tests/fuzz/bytes.hpp"
#include "tests/support/reshard_gen.hpp"
#include "tests/support/reshard_models.hpp"

namespace {

using namespace cohort;
using namespace cohort::publish;

constexpr int k_max_events = 48;

/// Two senders, one receiver; a model of a few KiB.
const plan::ReshardPlan& small_plan() {
  static const plan::ReshardPlan plan = [] {
    plan::ReshardOptions options;
    options.bucket_bytes = 1 << 12;
    auto made = plan::plan_reshard(test::dense_decoder(1, 16, 2, 2, 64, 64),
                                   test::make_layout("train", 2, 1, 1, 1),
                                   test::make_layout("infer", 1, 1, 1, 1, 2), options);
    COHORT_CHECK(made.has_value(), made ? "" : made.error().to_string());
    return *made;
  }();
  return plan;
}

/// Plays the input as events once the member has said its first word, from which it takes the
/// plan's fingerprint; then its peers are gone.
class FuzzPort final : public Port {
 public:
  explicit FuzzPort(test::FuzzBytes in) : in_(in), ready_(::eventfd(1, EFD_CLOEXEC)) {}
  ~FuzzPort() override { ::close(ready_); }
  std::string endpoint() const override { return "fuzz"; }
  Expected<void> connect(uint32_t, const std::vector<std::string>&, uint64_t) override {
    return {};
  }
  Expected<void> forget(uint64_t) override { return {}; }
  std::span<std::byte> window() override { return {}; }
  std::span<const std::byte> window_of(uint32_t) override { return {}; }
  bool has_windows() const override { return false; }
  uint64_t held_bytes() const override { return 0; }
  int wait_fd() const override { return ready_; }
  Expected<bool> send(uint32_t, const Note& note, tensor::Buffer) override {
    if (!is_started_) said_ = note;
    is_started_ = true;
    return true;
  }
  std::optional<PortEvent> next() override {
    if (!is_started_) return std::nullopt;
    PortEvent event;
    if (++events_ > k_max_events || in_.empty()) {
      event.kind = PortEvent::Kind::lost;
      event.peer = static_cast<uint32_t>(events_ % 2);
      event.reason = "the input has ended";
      return event;
    }
    const auto how = in_.number<uint8_t>();
    event.peer = how & 1;
    Note& note = event.note;
    note.kind = static_cast<NoteKind>(in_.number<uint8_t>() % 8);
    note.from = (how & 2) != 0 ? event.peer : in_.number<uint32_t>();
    note.version = (how & 4) != 0 ? said_.version : in_.number<uint64_t>();
    note.plan = (how & 8) != 0 ? said_.plan : in_.number<uint64_t>();
    note.transfer = in_.number<uint8_t>();
    note.round = in_.number<uint8_t>();
    note.offset = in_.number<uint16_t>();
    note.bytes = in_.number<uint16_t>();
    std::string body(in_.piece(in_.number<uint8_t>()));
    if ((how & 16) != 0) body.resize(note.bytes % 8192);
    if ((how & 32) != 0) note.bytes = body.size();
    note.checksum =
        (how & 64) != 0 ? in_.number<uint64_t>() : tensor::checksum64(test::bytes_of(body));
    event.body = tensor::Buffer::copy_of(test::bytes_of(body));
    return event;
  }

 private:
  test::FuzzBytes in_;
  int ready_;
  Note said_;
  bool is_started_ = false;
  int events_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool is_quiet = log::open("/dev/null", log::Level::error).has_value();
  if (!is_quiet) return 0;
  MemberOptions options;
  options.plan = std::make_shared<const plan::ReshardPlan>(small_plan());
  options.card = options.plan->cards.back();
  for (CardId card : options.plan->cards) options.labels.push_back(std::to_string(card.value));
  std::map<std::pair<uint64_t, uint64_t>, std::vector<std::byte>> parts;
  const plan::Shards shards(options.plan->model, options.plan->to);
  const PartTable table(shards, options.card);
  options.target = [&](const PartName& name) {
    auto& part = parts[{name.family, name.layer * 64 + name.expert}];
    part.resize(table.part(name).bytes);
    return std::span<std::byte>(part);
  };
  auto member =
      Member::open(std::move(options), std::make_unique<FuzzPort>(test::FuzzBytes(data, size)));
  COHORT_CHECK(member.has_value(), member ? "" : member.error().to_string());
  COHORT_CHECK((*member)->connect({"", "", ""}).has_value(), "connect");
  auto report = (*member)->publish(1);
  COHORT_CHECK(report || !report.error().detail.empty(), "a reason");
  COHORT_CHECK(!(*member)->served(), "PUBLISH-2: nothing is served before commit");
  return 0;
}
