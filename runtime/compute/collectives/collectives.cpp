#include "runtime/compute/collectives/collectives.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/base/text.hpp"
#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {
namespace {

Expected<void> check(const GroupOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size ||
      options.timeout_ms < 1 || options.name.empty() || options.rendezvous == nullptr ||
      (!options.labels.empty() && options.labels.size() != static_cast<size_t>(options.size)))
    return Error{Errc::invalid_argument,
                 fmt::format("group '{}': rank {} of {}, {} labels, timeout {} ms: needs a name, a "
                             "rendezvous, a rank below the size, no label or one per rank, and a "
                             "timeout",
                             options.name, options.rank, options.size, options.labels.size(),
                             options.timeout_ms)};
  const bool is_on_device =
      options.backend == CollectiveBackend::nccl || options.backend == CollectiveBackend::hccl;
  if (is_on_device && options.device == nullptr)
    return Error{Errc::invalid_argument,
                 fmt::format("group {}: {} joins devices: give the rank's device, or choose gloo",
                             options.name, to_string(options.backend))};
  if (options.backend == CollectiveBackend::links && !options.open)
    return Error{Errc::invalid_argument,
                 fmt::format("group {}: links need GroupOptions::open", options.name)};
  return {};
}

Expected<std::unique_ptr<Collectives>> join_engine(const GroupOptions& options) {
  if (options.backend == CollectiveBackend::links) return options.open(options);
  constexpr decltype(&join_gloo) k_joins[] = {join_gloo, join_nccl, join_hccl, join_in_memory};
  return k_joins[static_cast<size_t>(options.backend)](options);
}

constexpr size_t k_key_max = 1 << 10, k_value_max = 64 << 10, k_keys_max = 1 << 16;

class Table final : public Rendezvous {
 public:
  Expected<void> put(const std::string& key, const std::string& value) override {
    COHORT_TRY(check(key, value));
    std::lock_guard lock(mutex_);
    COHORT_TRY(check_room(key));
    values_[key] = value;
    return {};
  }
  Expected<std::string> put_if_absent(const std::string& key, const std::string& value) override {
    COHORT_TRY(check(key, value));
    std::lock_guard lock(mutex_);
    COHORT_TRY(check_room(key));
    return values_.emplace(key, value).first->second;
  }
  Expected<std::optional<std::string>> get(const std::string& key) override {
    std::lock_guard lock(mutex_);
    auto it = values_.find(key);
    if (it == values_.end()) return std::optional<std::string>();
    return std::optional(it->second);
  }
  std::shared_ptr<void> share(const std::string& key,
                              const std::function<std::shared_ptr<void>()>& make) override {
    std::lock_guard lock(mutex_);
    std::shared_ptr<void> object = shared_[key].lock();
    if (object == nullptr) shared_[key] = object = make();
    return object;
  }

  static Expected<void> check(const std::string& key, const std::string& value) {
    if (key.size() <= k_key_max && value.size() <= k_value_max) return {};
    return Error{Errc::capacity, fmt::format("rendezvous: key of {} or value of {} bytes is over "
                                             "{} or {}",
                                             key.size(), value.size(), k_key_max, k_value_max)};
  }

 private:
  Expected<void> check_room(const std::string& key) const {
    if (values_.size() < k_keys_max || values_.contains(key)) return {};
    return Error{Errc::capacity, fmt::format("rendezvous: {} keys are all it takes", k_keys_max)};
  }
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::weak_ptr<void>> shared_;
};

}  // namespace

std::shared_ptr<Rendezvous> Rendezvous::in_process() { return std::make_shared<Table>(); }

std::string_view to_string(CollectiveBackend backend) {
  constexpr std::string_view k_names[] = {"gloo", "nccl", "hccl", "memory", "links"};
  return name_in(k_names, backend);
}

std::string_view to_string(Collective operation) {
  constexpr std::string_view k_names[] = {"all_to_all", "all_gather", "broadcast", "barrier"};
  return name_in(k_names, operation, "an unknown operation");
}

Expected<void> Collectives::all_gather(std::span<const std::byte> mine, Received all) {
  const std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()), mine);
  return exchange(Collective::all_gather, send, all);
}

Expected<void> Collectives::broadcast(std::span<std::byte> bytes, int root) {
  std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()));
  std::vector<std::span<std::byte>> receive(static_cast<size_t>(size()));
  if (rank() == root) send.assign(send.size(), bytes);
  if (root >= 0 && root < size()) receive[static_cast<size_t>(root)] = bytes;
  return exchange(Collective::broadcast, send, receive);
}

Expected<void> Collectives::barrier() {
  const std::byte mine{1};
  std::vector<std::byte> theirs(static_cast<size_t>(size()));
  std::vector<std::span<std::byte>> all;
  for (std::byte& one : theirs) all.emplace_back(&one, 1);
  const std::vector<std::span<const std::byte>> send(all.size(), std::span(&mine, 1));
  return exchange(Collective::barrier, send, all);
}

Expected<std::unique_ptr<Collectives>> Collectives::join(const GroupOptions& options) {
  COHORT_TRY(check(options));
  COHORT_ASSIGN(std::unique_ptr<Collectives> group, join_engine(options));
  if (options.device == nullptr) return group;
  const bool takes_device =
      options.backend == CollectiveBackend::nccl || options.backend == CollectiveBackend::hccl;
  return stage_collectives(std::move(group), options.device, takes_device);
}

}  // namespace cohort::compute
