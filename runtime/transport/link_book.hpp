#pragma once
/// The link ends of this process, for those who show what passes through them. Thread-safe; reading
/// it takes each end's lock for as long as it takes to copy a few numbers. Bound: the open ends.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/link.hpp"

namespace cohort::transport {

struct LinkEnd {
  std::string name;
  bool is_producer = false;
  LinkStats stats;
  size_t pending_bytes = 0, queue_bytes = 0;  // producer: waiting or not acknowledged, at most
  size_t credit_bytes = 0;                    // consumer: granted to each producer
};

/// Returns the ends that are open, in the order of their opening.
std::vector<LinkEnd> links_here();

namespace detail {

/// An end's place in the book, for as long as the object lives.
class LinkPlace {
 public:
  LinkPlace() = default;
  explicit LinkPlace(std::function<LinkEnd()> read);
  ~LinkPlace();
  LinkPlace(const LinkPlace&) = delete;
  LinkPlace& operator=(LinkPlace&& other) noexcept;

 private:
  uint64_t number_ = 0;  // 0: none
};

}  // namespace detail
}  // namespace cohort::transport
