#include "runtime/text/token_vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/check.hpp"

namespace cohort::text {

uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t k_multiplier = 0x9E3779B97F4A7C15;
  uint64_t hash = bytes.size() * k_multiplier;
  const char* data = bytes.data();
  size_t left = bytes.size();
  const auto mix = [&](uint64_t word) {
    hash = (std::rotl(hash, 23) ^ word) * k_multiplier;
    hash ^= hash >> 29;
  };
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    mix(word);
  }
  if (left > 0) {
    uint64_t word = 0;
    std::memcpy(&word, data, left);
    mix(word);
  }
  return (hash ^ hash >> 32) * k_multiplier;
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  bytes_.reserve(bytes);
  by_id_.reserve(std::min(tokens, static_cast<size_t>(k_id_end)));
  size_t slots = 16;
  while (slots < 2 * tokens) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

void Vocabulary::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.begin == k_absent) continue;
    size_t i = slot.hash & (slots_.size() - 1);
    while (slots_[i].begin != k_absent) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

Vocabulary::Slot& Vocabulary::slot_of(std::string_view token, uint32_t hash) {
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].begin != k_absent &&
         (slots_[i].hash != hash ||
          std::string_view(bytes_).substr(slots_[i].begin, slots_[i].size) != token))
    i = (i + 1) & (slots_.size() - 1);
  return slots_[i];
}

void Vocabulary::add(std::string_view token, TokenId id) {
  COHORT_CHECK(id >= 0 && id < k_id_end, "vocabulary: an id out of range");
  COHORT_CHECK(bytes_.size() + token.size() < k_absent, "vocabulary: too much text");
  if (2 * (count_ + 1) > slots_.size()) grow(std::max<size_t>(16, 2 * slots_.size()));
  const auto hash = static_cast<uint32_t>(hash_bytes(token) >> 32);
  Slot& slot = slot_of(token, hash);
  if (slot.begin == k_absent) {
    slot = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), hash, id};
    bytes_ += token;
    ++count_;
  }
  slot.id = id;
  if (by_id_.size() <= static_cast<size_t>(id)) by_id_.resize(static_cast<size_t>(id) + 1);
  by_id_[static_cast<size_t>(id)] = {slot.begin, slot.size};
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const auto hash = static_cast<uint32_t>(hash_bytes(token) >> 32);
  const Slot& slot = const_cast<Vocabulary*>(this)->slot_of(token, hash);
  if (slot.begin == k_absent) return std::nullopt;
  return slot.id;
}

}  // namespace cohort::text
