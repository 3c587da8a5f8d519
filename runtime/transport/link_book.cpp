#include "runtime/transport/link_book.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace cohort::transport {
namespace {

/// One of this process, as its log is.
struct Book {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, std::function<LinkEnd()>> ends;
};

Book& book() {
  static Book here;
  return here;
}

}  // namespace

std::vector<LinkEnd> links_here() {
  std::vector<LinkEnd> ends;
  std::lock_guard lock(book().mutex);
  for (const auto& [number, read] : book().ends) ends.push_back(read());
  return ends;
}

namespace detail {

LinkPlace::LinkPlace(std::function<LinkEnd()> read) {
  std::lock_guard lock(book().mutex);
  number_ = ++book().last;
  book().ends.emplace(number_, std::move(read));
}

LinkPlace::~LinkPlace() {
  if (number_ == 0) return;
  std::lock_guard lock(book().mutex);
  book().ends.erase(number_);
}

LinkPlace& LinkPlace::operator=(LinkPlace&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace detail
}  // namespace cohort::transport
