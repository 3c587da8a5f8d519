#pragma once
/// The rendezvous as c10d sees it. Private to the folder: it includes torch. Its callers, c10d's
/// process groups, expect exceptions. Thread-safe as Rendezvous is.
#include "runtime/tensor/torch.hpp"
// torch.hpp first: ivalue.h before any other header of ATen
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {

/// Keys of one group, each behind `prefix`.
class GroupStore final : public c10d::Store {
 public:
  GroupStore(std::shared_ptr<Rendezvous> rendezvous, std::string prefix,
             std::chrono::milliseconds timeout)
      : Store(timeout), rendezvous_(std::move(rendezvous)), prefix_(std::move(prefix)) {}
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    auto done = rendezvous_->put(prefix_ + key, std::string(value.begin(), value.end()));
    TORCH_CHECK(done.has_value(), done ? "" : done.error().detail);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    wait({key}, timeout_);
    const std::string value = *find(key);
    return {value.begin(), value.end()};
  }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys)
      if (!find(key)) return false;
    return true;
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!check(keys)) {
      TORCH_CHECK(std::chrono::steady_clock::now() < end, "rendezvous: '", keys[0],
                  "' does not appear");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  int64_t add(const std::string&, int64_t) override { return unused("add"); }
  bool deleteKey(const std::string&) override { return unused("deleteKey") != 0; }
  int64_t getNumKeys() override { return unused("getNumKeys"); }

 private:
  static int64_t unused(const char* what) { TORCH_CHECK(false, "rendezvous: no ", what); }
  std::optional<std::string> find(const std::string& key) {
    auto found = rendezvous_->get(prefix_ + key);
    TORCH_CHECK(found.has_value(), found ? "" : found.error().detail);
    return *found;
  }
  std::shared_ptr<Rendezvous> rendezvous_;
  std::string prefix_;
};

}  // namespace cohort::compute
