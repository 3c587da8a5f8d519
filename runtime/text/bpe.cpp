#include "runtime/text/bpe.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/text/byte_level.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr uint32_t k_nothing = UINT32_MAX;
constexpr size_t k_few_symbols = 24;       // above, the heap is faster than looking at every pair
constexpr size_t k_cache_lines = 1 << 15;  // 2 MiB
constexpr std::string_view k_mark =
    "\xE2\x96\x81";  // U+2581, which sentencepiece writes for a space

uint64_t pair_of(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
uint64_t hash_pair(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15;
  return pair ^ pair >> 32;
}

/// Returns the next place behind the begin of `text` where a mark follows something else.
size_t next_mark(std::string_view text) {
  size_t at = 0;
  while (text.substr(at).starts_with(k_mark)) at += k_mark.size();
  const size_t found = text.find(k_mark, at);
  return found == std::string_view::npos ? text.size() : found;
}

}  // namespace

Expected<BpeModel> BpeModel::make(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                  BpeOptions options) {
  BpeModel model;
  model.vocabulary_ = std::move(vocabulary);
  model.options_ = std::move(options);
  if (!model.options_.unknown_token.empty())
    model.unknown_id_ = model.vocabulary_.id_of(model.options_.unknown_token);
  model.find_bytes();
  COHORT_TRY(model.add_merges(merges));
  return model;
}

void BpeModel::find_bytes() {
  byte_ids_.fill(-1);
  if (!options_.is_byte_level) {
    for (size_t i = 0; i < byte_ids_.size(); ++i) {
      constexpr std::string_view k_digits = "0123456789ABCDEF";
      const std::string name{'<', '0', 'x', k_digits[i >> 4], k_digits[i & 15], '>'};
      byte_ids_[i] = vocabulary_.id_of(name).value_or(-1);
    }
    return;
  }
  byte_tokens_.reserve(vocabulary_.size(), 0);
  for (TokenId id = 0; id < vocabulary_.id_end(); ++id) {
    const std::string_view token = vocabulary_.token(id);
    if (token.data() == nullptr) continue;
    const std::optional<std::string> bytes = bytes_of_characters(token);
    if (!bytes || bytes->empty()) continue;
    byte_tokens_.add(*bytes, id);
    if (bytes->size() == 1) byte_ids_[static_cast<uint8_t>((*bytes)[0])] = id;
  }
}

Expected<void> BpeModel::add_merges(const std::vector<Merge>& merges) {
  size_t slots = 16;
  while (slots < 2 * merges.size()) slots *= 2;
  merges_.assign(slots, {});
  // A character that is dropped makes neighbours of what stands around it, a mark too.
  const bool has_bytes = options_.has_byte_fallback &&
                         std::ranges::all_of(byte_ids_, [](TokenId id) { return id >= 0; });
  begins_at_marks_ = !options_.is_byte_level && vocabulary_.id_of(k_mark).has_value() &&
                     (has_bytes || !options_.unknown_token.empty());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const std::optional<TokenId> left = vocabulary_.id_of(merge.left);
    const std::optional<TokenId> right = vocabulary_.id_of(merge.right);
    joined.assign(merge.left).append(merge.right);
    const std::optional<TokenId> id = vocabulary_.id_of(joined);
    if (!left || !right || !id) {
      const std::string absent(!left    ? merge.left
                               : !right ? merge.right
                                        : std::string_view(joined));
      return Error{Errc::config, "model.merges[" + std::to_string(rank) + "]: the token \"" +
                                     absent.substr(0, 100) + "\" is not in model.vocab"};
    }
    insert(pair_of(*left, *right), {static_cast<uint32_t>(rank), *id});
    if (begins_at_marks_ && next_mark(joined) < joined.size()) begins_at_marks_ = false;
  }
  return {};
}

void BpeModel::insert(uint64_t pair, Joined joined) {
  size_t i = hash_pair(pair) & (merges_.size() - 1);
  while (merges_[i].pair != UINT64_MAX && merges_[i].pair != pair)
    i = (i + 1) & (merges_.size() - 1);
  merges_[i] = {pair, joined};
}

BpeModel::Joined BpeModel::join_of(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  size_t i = hash_pair(pair) & (merges_.size() - 1);
  while (merges_[i].pair != pair) {
    if (merges_[i].pair == UINT64_MAX) return {};
    i = (i + 1) & (merges_.size() - 1);
  }
  return merges_[i].joined;
}

std::optional<TokenId> BpeModel::id_of_piece(std::string_view piece) const {
  return options_.is_byte_level ? byte_tokens_.id_of(piece) : vocabulary_.id_of(piece);
}

Expected<void> BpeModel::encode(std::string_view piece, BpeScratch& scratch,
                                std::vector<TokenId>& ids, std::vector<uint32_t>* sizes) const {
  if (piece.empty()) return {};
  if (options_.ignores_merges) {
    if (const std::optional<TokenId> id = id_of_piece(piece)) {
      ids.push_back(*id);
      if (sizes != nullptr) sizes->push_back(static_cast<uint32_t>(piece.size()));
      return {};
    }
  }
  if (!begins_at_marks_) return encode_segment(piece, scratch, ids, sizes);
  while (!piece.empty()) {
    const size_t size = next_mark(piece);
    COHORT_TRY(encode_segment(piece.substr(0, size), scratch, ids, sizes));
    piece.remove_prefix(size);
  }
  return {};
}

Expected<void> BpeModel::encode_segment(std::string_view piece, BpeScratch& scratch,
                                        std::vector<TokenId>& ids,
                                        std::vector<uint32_t>* sizes) const {
  using Line = BpeScratch::CacheLine;
  Line* line = nullptr;
  if (sizes == nullptr && piece.size() <= Line::k_bytes_max) {
    if (scratch.cache_.empty()) scratch.cache_.resize(k_cache_lines);
    line = &scratch.cache_[hash_bytes(piece) >> 32 & (k_cache_lines - 1)];
    if (line->size == piece.size() &&
        std::memcmp(line->piece.data(), piece.data(), piece.size()) == 0) {
      ids.insert(ids.end(), line->ids.begin(), line->ids.begin() + line->count);
      return {};
    }
  }
  COHORT_TRY(start(piece, scratch));
  if (scratch.symbols_.size() <= k_few_symbols)
    merge_few(scratch);
  else
    merge_many(scratch);
  const size_t before = ids.size();
  for (const BpeScratch::Symbol& symbol : scratch.symbols_) {
    if (symbol.size == 0) continue;
    ids.push_back(symbol.id);
    if (sizes != nullptr) sizes->push_back(symbol.size);
  }
  const size_t count = ids.size() - before;
  if (line != nullptr && count <= Line::k_ids_max) {
    line->size = static_cast<uint8_t>(piece.size());
    line->count = static_cast<uint8_t>(count);
    std::memcpy(line->piece.data(), piece.data(), piece.size());
    std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), line->ids.begin());
  }
  return {};
}

Expected<void> BpeModel::start(std::string_view piece, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  if (options_.is_byte_level) {
    // A byte without a token of its own (a vocabulary with holes) is handled like a character.
    const bool is_whole = std::ranges::all_of(
        piece, [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; });
    if (is_whole) {
      for (const char byte : piece)
        symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)], 1, 0, 0});
      return {};
    }
  }
  return start_characters(piece, scratch);
}

Expected<void> BpeModel::start_characters(std::string_view piece, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  uint32_t unknown_size = 0;  // bytes of unknown characters that wait to become one unk_token
  const auto put_unknown = [&] {
    if (unknown_size > 0) symbols.push_back({*unknown_id_, unknown_size, 0, 0});
    unknown_size = 0;
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t size = options_.is_byte_level ? 1 : utf8_size(piece[at]);
    const std::string_view character = piece.substr(at, size);
    at += size;
    if (const std::optional<TokenId> id = id_of_piece(character)) {
      put_unknown();
      symbols.push_back({*id, static_cast<uint32_t>(size), 0, 0});
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (options_.has_byte_fallback && !options_.is_byte_level &&
        std::ranges::all_of(character, [&](char byte) { return byte_id(byte) >= 0; })) {
      // What waits stays waiting, as in the reference.
      for (const char byte : character) symbols.push_back({byte_id(byte), 1, 0, 0});
      continue;
    }
    if (options_.unknown_token.empty()) continue;
    if (!unknown_id_)
      return Error{Errc::config, "model.unk_token \"" + options_.unknown_token.substr(0, 100) +
                                     "\" is not in model.vocab"};
    if (!options_.fuses_unknown) put_unknown();
    unknown_size += static_cast<uint32_t>(size);
  }
  put_unknown();
  return {};
}

void BpeModel::merge_few(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  std::array<Joined, k_few_symbols> joins;
  size_t size = symbols.size();
  for (size_t i = 0; i + 1 < size; ++i) joins[i] = join_of(symbols[i].id, symbols[i + 1].id);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i)
      if (joins[i].rank < joins[best].rank) best = i;
    scratch.steps += size;
    if (joins[best].rank == UINT32_MAX) break;
    symbols[best].id = joins[best].id;
    symbols[best].size += symbols[best + 1].size;
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      joins[i - 1] = joins[i];
    }
    if (best > 0) joins[best - 1] = join_of(symbols[best - 1].id, symbols[best].id);
    if (best + 1 < size) joins[best] = join_of(symbols[best].id, symbols[best + 1].id);
  }
  symbols.resize(size);
}

void BpeModel::merge_many(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  using Candidate = BpeScratch::Candidate;
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    symbols[i].before = i == 0 ? k_nothing : i - 1;
    symbols[i].behind = i + 1 < count ? i + 1 : k_nothing;
    if (i + 1 == count) break;
    const Joined joined = join_of(symbols[i].id, symbols[i + 1].id);
    if (joined.rank != UINT32_MAX) heap.push_back({joined.rank, i, joined.id});
  }
  scratch.steps += count;
  std::ranges::make_heap(heap, is_later);
  const auto push = [&](uint32_t left, uint32_t right) {
    const Joined joined = join_of(symbols[left].id, symbols[right].id);
    if (joined.rank == UINT32_MAX) return;
    heap.push_back({joined.rank, left, joined.id});
    std::ranges::push_heap(heap, is_later);
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, is_later);
    const Candidate top = heap.back();
    heap.pop_back();
    ++scratch.steps;
    auto& left = symbols[top.at];
    if (left.size == 0 || left.behind == k_nothing) continue;
    auto& right = symbols[left.behind];
    // The pair that stands there now may be another one than when the candidate was made.
    const Joined joined = join_of(left.id, right.id);
    if (joined.rank == UINT32_MAX || joined.id != top.id) continue;
    left.id = top.id;
    left.size += right.size;
    right.size = 0;
    left.behind = right.behind;
    if (left.behind != k_nothing) symbols[left.behind].before = top.at;
    if (left.before != k_nothing) push(left.before, top.at);
    if (left.behind != k_nothing) push(top.at, left.behind);
  }
}

}  // namespace cohort::text
