#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/tensor/buffer.hpp"
#include "runtime/tensor/checksum.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::tensor {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Buffer, AllocatesAlignedAndWritable) {
  for (size_t size : {1u, 63u, 64u, 255u, 256u, 257u, 4097u, 1000000u, 40000000u}) {
    Buffer buffer = Buffer::allocate(size);
    ASSERT_EQ(buffer.size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) % k_buffer_alignment, 0u);
    std::memset(buffer.mutable_bytes().data(), 7, size);
    EXPECT_EQ(buffer.bytes().back(), std::byte{7});
  }
}

TEST(Buffer, EmptyIsHarmless) {
  Buffer empty = Buffer::allocate(0);
  EXPECT_TRUE(empty.empty());
  EXPECT_TRUE(empty.mutable_bytes().empty());
  EXPECT_TRUE(empty.slice(0, 0).empty());
  EXPECT_TRUE(Buffer::copy_of({}).empty());
  Buffer copy = empty;
  EXPECT_TRUE(copy.empty());
}

TEST(Buffer, CopiesShareAndSlicesKeepAlive) {
  Buffer whole = Buffer::copy_of(bytes_of("hello world"));
  Buffer part = whole.slice(6, 5);
  Buffer copy = whole;
  EXPECT_EQ(copy.bytes().data(), whole.bytes().data());
  whole = {};
  copy = {};
  EXPECT_EQ(std::memcmp(part.bytes().data(), "world", 5), 0);
}

TEST(Buffer, PoolGivesTheBlockBack) {
  trim_pool();
  const std::byte* first = nullptr;
  {
    Buffer buffer = Buffer::allocate(100000);
    first = buffer.bytes().data();
  }
  EXPECT_GT(pool_stats().idle_bytes, 0u);
  uint64_t reused = pool_stats().reused;
  EXPECT_EQ(Buffer::allocate(99000).bytes().data(), first);
  EXPECT_EQ(pool_stats().reused, reused + 1);
  trim_pool();
  EXPECT_EQ(pool_stats().idle_bytes, 0u);
}

TEST(Buffer, PoolIsBounded) {  // k_pool_bytes
  std::vector<Buffer> many;
  for (int i = 0; i < 20; ++i) many.push_back(Buffer::allocate(k_pooled_block_bytes));
  many.clear();
  EXPECT_LE(pool_stats().idle_bytes, k_pool_bytes);
  trim_pool();
}

TEST(Buffer, AdoptedBytesLiveAsLongAsTheyAreSeen) {
  auto owner = std::make_shared<std::string>("foreign bytes");
  std::weak_ptr<std::string> watch = owner;
  Buffer buffer = Buffer::adopt(bytes_of(*owner).data(), owner->size(), owner);
  owner.reset();
  Buffer part = buffer.slice(8, 5);
  buffer = {};
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(std::memcmp(part.bytes().data(), "bytes", 5), 0);
  part = {};
  EXPECT_TRUE(watch.expired());
}

TEST(BufferDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Buffer buffer = Buffer::allocate(10);
  Buffer shared = buffer;
  EXPECT_DEATH(buffer.mutable_bytes(), "shared");
  EXPECT_DEATH(buffer.slice(5, 6), "out of range");
  auto owner = std::make_shared<std::string>("x");
  Buffer adopted = Buffer::adopt(bytes_of(*owner).data(), 1, owner);
  EXPECT_DEATH(adopted.mutable_bytes(), "read-only");
}

TEST(ChecksumTest, KnownValues) {  // of xxhash 0.8: XXH3_64bits, seed 0
  EXPECT_EQ(checksum64({}), 0x2D06800538D394C2u);
  EXPECT_EQ(checksum64(bytes_of("a")), 0xE6C632B61E964E1Fu);
  EXPECT_EQ(checksum64(bytes_of("abc")), 0x78AF5F94892F3950u);
}

TEST(ChecksumTest, StreamingEqualsOneShotHoweverItIsCut) {
  std::vector<std::byte> bytes(100000);
  Rng rng(3);
  for (std::byte& x : bytes) x = static_cast<std::byte>(rng.below(256));
  for (size_t size : {0u, 1u, 240u, 241u, 1023u, 1024u, 4096u, 99999u}) {
    auto all = std::span<const std::byte>(bytes).first(size);
    Checksum checksum;
    for (size_t at = 0; at < size;) {
      size_t step = std::min<size_t>(size - at, rng.below(5000));
      checksum.update(all.subspan(at, step));
      at += step;
    }
    EXPECT_EQ(checksum.digest(), checksum64(all)) << size;
  }
}

TEST(ChecksumTest, OneFlippedBitShows) {
  std::vector<std::byte> bytes(4096);
  uint64_t before = checksum64(bytes);
  for (size_t bit : {0u, 1000u, 32767u}) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(checksum64(bytes), before);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_EQ(checksum64(bytes), before);
}

TEST(DtypeTest, SizesAndNames) {
  struct Row {
    Dtype dtype;
    size_t size;
    std::string_view name;
  };
  for (Row row : {Row{Dtype::f32, 4, "f32"}, Row{Dtype::bf16, 2, "bf16"}, Row{Dtype::i32, 4, "i32"},
                  Row{Dtype::u8, 1, "u8"}, Row{Dtype::u32, 4, "u32"}, Row{Dtype::f64, 8, "f64"}}) {
    EXPECT_EQ(size_of(row.dtype), row.size);
    EXPECT_EQ(to_string(row.dtype), row.name);
  }
  EXPECT_EQ(size_of(static_cast<Dtype>(99)), 0u);
  EXPECT_EQ(to_string(static_cast<Dtype>(99)), "unknown");
}

}  // namespace
}  // namespace cohort::tensor
