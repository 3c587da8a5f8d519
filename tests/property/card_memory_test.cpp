/// Cards that keep their pages against a simple model: random objects come and go, each with its
/// own contents; nothing overlaps, statistics are exact, and the process never holds more than what
/// was in use at once. And that a move between host and card takes no page from the kernel.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/compute/device/page_arena.hpp"
#include "runtime/compute/device/resident_object.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::compute {
namespace {

constexpr uint64_t k_mib = uint64_t{1} << 20;
constexpr uint64_t k_page = 4096;

/// Exact, unlike statm, whose counters are summed up lazily.
uint64_t anonymous_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  uint64_t kib = 0;
  while (file >> word)
    if (word == "Anonymous:" && file >> kib) return kib << 10;
  return 0;
}

size_t mappings() {
  std::ifstream file("/proc/self/maps");
  return static_cast<size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

bool is_zero(const std::byte* data, uint64_t size_bytes) {
  return size_bytes == 0 ||
         (data[0] == std::byte{0} && std::memcmp(data, data + 1, size_bytes - 1) == 0);
}

/// One live object: a word in every page, and in its last bytes, tells whose it is.
struct Live {
  CardStorage storage;
  uint64_t mark = 0;

  template <class Visit>
  void each_place(Visit visit) const {
    const uint64_t size = storage.size_bytes();
    if (size < sizeof mark) return;
    for (uint64_t at = 0; at + 2 * sizeof mark <= size; at += k_page) visit(storage.data() + at);
    visit(storage.data() + size - sizeof mark);
  }
  void write() const {
    each_place([this](std::byte* at) { std::memcpy(at, &mark, sizeof mark); });
  }
  bool is_intact() const {
    bool is_mine = true;
    each_place([&](const std::byte* at) {
      uint64_t found = 0;
      std::memcpy(&found, at, sizeof found);
      is_mine = is_mine && found == mark;
    });
    return is_mine;
  }
};

class Walk {
 public:
  Walk(Rng& rng, CardPages pages)
      : rng_(rng),
        card_(CardId{0}, k_budget, pages),
        before_bytes_(anonymous_bytes()),
        before_mappings_(mappings()) {}

  void step(uint64_t number) {
    if (live_.empty() || rng_.below(5) < 3)
      add(number);
    else
      drop();
    ASSERT_EQ(card_.bytes_in_use(), in_use_);
    ASSERT_EQ(card_.peak_bytes(), most_);
    ASSERT_LE(card_.idle_bytes(), card_.keeps_pages() ? most_ - in_use_ : 0);  // ARENA-1
    for (const Live& x : live_) ASSERT_TRUE(x.is_intact());
    if (number % 8 == 0) check_process();
  }

 private:
  static constexpr uint64_t k_budget = 96 * k_mib;

  uint64_t random_size() {
    switch (rng_.below(4)) {
      case 0:
        return 1 + rng_.below(300 << 10);
      case 1:
        return (1 + rng_.below(12)) * PageArena::k_chunk_bytes;
      default:
        return 1 + rng_.below(32 * k_mib);
    }
  }
  void add(uint64_t number) {
    const uint64_t size = random_size();
    const bool is_zeroed = rng_.below(2) == 0;
    auto storage = is_zeroed ? card_.allocate("x", size) : card_.allocate_unfilled("x", size);
    ASSERT_EQ(storage.has_value(), in_use_ + size <= k_budget);  // fragments never refuse it
    if (!storage) return;
    const auto address = reinterpret_cast<uintptr_t>(storage->data());
    ASSERT_EQ(address % (size >= PageArena::k_chunk_bytes ? PageArena::k_chunk_bytes : 64), 0u);
    if (is_zeroed) {
      ASSERT_TRUE(is_zero(storage->data(), size));
    }
    live_.push_back({*storage, number + 1});
    live_.back().write();
    in_use_ += size;
    most_ = std::max(most_, in_use_);
  }
  void drop() {
    const auto it = live_.begin() + static_cast<ptrdiff_t>(rng_.below(live_.size()));
    in_use_ -= it->storage.size_bytes();
    live_.erase(it);
  }
  void check_process() const {
    const uint64_t bound = card_.keeps_pages() ? most_ : in_use_;
    const uint64_t rounding = live_.size() * k_page + k_mib;  // last pages; the test's own heap
    ASSERT_LE(anonymous_bytes(), before_bytes_ + bound + rounding);
    ASSERT_LE(mappings(),
              before_mappings_ + k_budget / PageArena::k_chunk_bytes + 2 * live_.size() + 16);
  }

  Rng& rng_;
  CardMemory card_;
  uint64_t before_bytes_;
  size_t before_mappings_;
  std::vector<Live> live_;
  uint64_t in_use_ = 0, most_ = 0;
};

TEST(CardMemoryProperty, RandomObjectsAgreeWithTheModel) {  // ARENA-1, ARENA-2, PLACE-2
  Rng rng{test::property_seed(11)};
  for (CardPages pages : {CardPages::kept, CardPages::released}) {
    const uint64_t before = anonymous_bytes();
    {
      Walk walk(rng, pages);
      for (uint64_t i = 0; i < 300; ++i) {
        walk.step(i);
        ASSERT_FALSE(HasFatalFailure()) << "step " << i;
      }
    }
    EXPECT_LE(anonymous_bytes(), before + k_mib);  // a card takes its pages with it
  }
}

TEST(CardMemoryProperty, SmallObjectsTakeTheRoomOfIdlePages) {  // ARENA-1
  CardMemory card(CardId{0}, 64 * k_mib, CardPages::kept);
  CardStorage params = card.allocate("params", 32 * k_mib).value();
  params.reset();
  EXPECT_EQ(card.idle_bytes(), 32 * k_mib);
  std::vector<CardStorage> small;
  for (int i = 0; i < 32; ++i) small.push_back(card.allocate("small", k_mib).value());
  EXPECT_EQ(card.idle_bytes(), 0u);
  EXPECT_EQ(card.peak_bytes(), 32 * k_mib);
}

/// Page faults of `turns` turns in which params and optimizer leave for a cache and come back.
int64_t faults_of_turns(CardPages pages, int turns) {
  CardMemory card(CardId{0}, 64 * k_mib, pages);
  ResidentObject params("params", 10 * k_mib), optimizer("optimizer", 22 * k_mib);
  auto turn = [&] {
    for (ResidentObject* x : {&params, &optimizer}) ASSERT_TRUE(x->onload(card));
    for (ResidentObject* x : {&optimizer, &params}) ASSERT_TRUE(x->offload());
    auto cache = card.allocate("kv_cache", 26 * k_mib);
    ASSERT_TRUE(cache);
    std::memset(cache->data(), 1, cache->size_bytes());
  };
  for (int i = 0; i < 2; ++i) turn();  // host buffers are made, the card reaches its level
  const int64_t before = page_faults();
  for (int i = 0; i < turns; ++i) turn();
  return page_faults() - before;
}

TEST(CardMemoryProperty, ATurnTakesNoFreshPages) {  // ARENA-2
  const int64_t kept = faults_of_turns(CardPages::kept, 20);
  const int64_t released = faults_of_turns(CardPages::released, 20);
  EXPECT_LT(kept, 200);  // of the heap's bookkeeping; one 2 MiB chunk is 512 small pages
  EXPECT_GT(released, 20 * 32) << "the measure itself: three objects, in huge pages at best";
}

TEST(CardMemoryProperty, ACopyIsWholeAndStaysInside) {
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, 8 * k_mib - 1, 8 * k_mib, 8 * k_mib + 77}) {
    auto from = allocate_host(size + 64).value(), to = allocate_host(size + 64).value();
    for (uint64_t i = 0; i < size + 64; ++i)
      from.get()[i] = static_cast<std::byte>(i * 31 % 251 + 1);
    copy_to_used(to.get(), from.get(), size);
    EXPECT_EQ(std::memcmp(to.get(), from.get(), size), 0) << size;
    EXPECT_TRUE(is_zero(to.get() + size, 64)) << size;
  }
}

TEST(CardMemoryProperty, AKeptHostBufferHoldsNoOldBytes) {
  CardMemory card(CardId{0}, 8 * k_mib, CardPages::kept);
  ResidentObject object("params", 4 * k_mib);
  ASSERT_TRUE(object.materialise());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(object.onload(card));
    EXPECT_EQ(object.data()[1], std::byte(i));
    object.data()[1] = std::byte(i + 1);
    ASSERT_TRUE(object.offload());
    EXPECT_EQ(object.data()[1], std::byte(i + 1));
  }
  object.drop();
  EXPECT_TRUE(object.is_absent());
  EXPECT_EQ(object.data(), nullptr);
  ASSERT_TRUE(object.onload(card));  // absent: zeros, though the card's pages were used before
  EXPECT_TRUE(is_zero(object.data(), object.size_bytes()));
}

}  // namespace
}  // namespace cohort::compute
