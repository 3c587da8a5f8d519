#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {
namespace {

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

std::shared_ptr<void> Rendezvous::share(const std::string&,
                                        const std::function<std::shared_ptr<void>()>&) {
  return nullptr;
}

std::shared_ptr<Rendezvous> Rendezvous::in_process() { return std::make_shared<Table>(); }

}  // namespace cohort::compute
