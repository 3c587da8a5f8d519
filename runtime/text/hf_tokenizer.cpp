#include "runtime/text/hf_tokenizer.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "runtime/text/bpe.hpp"
#include "runtime/text/byte_level.hpp"
#include "runtime/text/json_fields.hpp"
#include "runtime/text/normalizer.hpp"
#include "runtime/text/post_processor.hpp"
#include "runtime/text/pre_tokenizer.hpp"
#include "runtime/text/tokenizer_json.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr size_t k_text_bytes_max = size_t{1} << 30;  // sizes of tokens are 32 bits
constexpr size_t k_idle_scratches_max = 64;
// A regular expression that is not a known one looks at each byte a few times. A pattern that goes
// back and forth may do so on a short text, for about a second; on a long one, each byte has
// several times the looks of any pattern in use.
constexpr uint64_t k_steps_base = 1'000'000, k_steps_per_byte = 1'000;
constexpr uint64_t k_steps_back_and_forth = 100'000'000, k_steps_per_byte_always = 64;

uint64_t steps_for(size_t bytes) {
  return k_steps_base + std::max(std::min(k_steps_per_byte * bytes, k_steps_back_and_forth),
                                 k_steps_per_byte_always * bytes);
}

struct Scratch {
  BpeScratch bpe;
  std::vector<TextPiece> pieces, spare;
  std::vector<AddedPart> raw_parts, parts;
  std::vector<uint32_t> sizes;
};

/// Lends each call buffers of its own, and keeps them warm.
class ScratchPool {
 public:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < k_idle_scratches_max) idle_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

/// Widens a range of bytes to whole characters.
Span whole_characters(std::string_view text, Span span) {
  while (span.begin > 0 && span.begin < text.size() && is_continuation(text[span.begin]))
    --span.begin;
  while (span.end < text.size() && is_continuation(text[span.end])) ++span.end;
  return span;
}

}  // namespace

class Tokenizer::Parts {
 public:
  BpeModel model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  Decoder decoder;
  std::vector<AddedToken> added;
  std::unordered_map<TokenId, const AddedToken*> added_by_id;
  std::unordered_map<std::string_view, const AddedToken*> added_by_text;
  AddedTokenSearch raw_search, normalized_search;
  ScratchPool pool;

  explicit Parts(BpeModel bpe) : model(std::move(bpe)) {}
  static Expected<std::unique_ptr<Parts>> read(TokenizerJson json,
                                               std::span<const AddedToken> more);
  static Expected<BpeModel> read_model(TokenizerJson& json, bool is_byte_level);
  Expected<void> read_added(const Json& tree, std::span<const AddedToken> more);
  Expected<void> add(AddedToken token, const std::string& where);
  Expected<void> make_searches();

  /// The state of one encode().
  struct Call {
    std::string_view text;
    const EncodeOptions& options;
    Encoding& out;
    Scratch& scratch;
    TextBuffers buffers;
    StepBudget budget;
  };
  Expected<void> encode(Call& call) const;
  Expected<void> encode_piece(const TextPiece& piece, Call& call) const;
  void put(TokenId id, Span origin, Call& call) const;
};

Expected<BpeModel> Tokenizer::Parts::read_model(TokenizerJson& json, bool is_byte_level) {
  static const Json nothing;
  const Json* tree = &nothing;
  if (json.tree.is_object())
    if (const auto found = json.tree.find("model"); found != json.tree.end()) tree = &*found;
  JsonFields fields(*tree, "model");
  const std::string type = fields.text("type", "BPE");
  if (type != "BPE")
    return Error{Errc::unsupported,
                 "model.type \"" + type.substr(0, 64) + "\" is not built; BPE is"};
  if (!json.has_vocabulary) fields.fail("vocab", "must be an object of tokens and their ids");
  if (!json.has_merges) fields.fail("merges", "must be an array");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!fields.text(key, "").empty()) fields.fail(key, "is not built; null is", Errc::unsupported);
  if (const Json* dropout = fields.find("dropout"); dropout != nullptr && *dropout != 0)
    fields.fail("dropout", "is not built; null is", Errc::unsupported);
  BpeOptions options;
  options.is_byte_level = is_byte_level;
  options.ignores_merges = fields.flag("ignore_merges", false);
  options.has_byte_fallback = fields.flag("byte_fallback", false);
  options.fuses_unknown = fields.flag("fuse_unk", false);
  options.unknown_token = fields.text("unk_token", "");
  COHORT_TRY(fields.finish());
  std::vector<BpeModel::Merge> merges;
  merges.reserve(json.merge_ends.size());
  const std::string_view bytes = json.merge_bytes;
  size_t begin = 0;
  for (const TokenizerJson::MergeEnd end : json.merge_ends) {
    merges.push_back(
        {bytes.substr(begin, end.left - begin), bytes.substr(end.left, end.right - end.left)});
    begin = end.right;
  }
  return BpeModel::make(std::move(json.vocabulary), merges, std::move(options));
}

Expected<std::unique_ptr<Tokenizer::Parts>> Tokenizer::Parts::read(
    TokenizerJson json, std::span<const AddedToken> more) {
  static const Json nothing;
  const Json& tree = json.tree;
  if (!tree.is_object()) return Error{Errc::config, "must be a JSON object"};
  const auto part = [&](const char* key) -> const Json& {
    const auto found = tree.find(key);
    return found == tree.end() ? nothing : *found;
  };
  COHORT_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::read(part("pre_tokenizer")));
  COHORT_ASSIGN(BpeModel model, read_model(json, pre_tokenizer.is_byte_level()));
  auto parts = std::make_unique<Parts>(std::move(model));
  parts->pre_tokenizer = std::move(pre_tokenizer);
  COHORT_ASSIGN(parts->normalizer, Normalizer::read(part("normalizer")));
  COHORT_ASSIGN(parts->post_processor, PostProcessor::read(part("post_processor")));
  COHORT_ASSIGN(parts->decoder, Decoder::read(part("decoder")));
  COHORT_TRY(parts->read_added(part("added_tokens"), more));
  COHORT_TRY(parts->make_searches());
  return parts;
}

Expected<void> Tokenizer::Parts::read_added(const Json& tree, std::span<const AddedToken> more) {
  if (!tree.is_null() && !tree.is_array())
    return Error{Errc::config, "added_tokens must be an array"};
  added.reserve(tree.size() + more.size());  // the maps point into it
  for (size_t i = 0; i < tree.size(); ++i) {
    const std::string where = "added_tokens[" + std::to_string(i) + "]";
    JsonFields fields(tree[i], where);
    AddedToken token = read_added_token(fields);
    token.id = static_cast<TokenId>(fields.number("id", 0, Vocabulary::k_id_end - 1));
    COHORT_TRY(fields.finish());
    if (!token.content.empty()) COHORT_TRY(add(std::move(token), where));
  }
  for (const AddedToken& token : more)
    if (!token.content.empty() && !added_by_text.contains(token.content))
      COHORT_TRY(add(token, "added_tokens_decoder"));
  return {};
}

Expected<void> Tokenizer::Parts::add(AddedToken token, const std::string& where) {
  const std::string shown = where + " \"" + token.content.substr(0, 64) + "\"";
  const auto differs = [&](TokenId other, std::string_view what) {
    return Error{Errc::config, shown + " has id " + std::to_string(token.id) + ", but " +
                                   std::string(what) + " has id " + std::to_string(other)};
  };
  if (token.content.size() > AddedTokenSearch::k_content_bytes_max)
    return Error{Errc::unsupported, shown + " is longer than 1024 bytes"};
  if (const auto id = model.vocabulary().id_of(token.content); id && *id != token.id)
    return differs(*id, "the same text in model.vocab");
  const std::string_view of_id = model.vocabulary().token(token.id);
  if (of_id.data() != nullptr && of_id != token.content)
    return differs(token.id, "\"" + std::string(of_id.substr(0, 64)) + "\" of model.vocab");
  if (const auto same = added_by_text.find(token.content); same != added_by_text.end()) {
    if (same->second->id != token.id) return differs(same->second->id, "the same text above");
    return {};
  }
  if (const auto same = added_by_id.find(token.id); same != added_by_id.end())
    return differs(token.id, "\"" + same->second->content.substr(0, 64) + "\" above");
  added.push_back(std::move(token));
  added_by_text[added.back().content] = &added.back();
  added_by_id[added.back().id] = &added.back();
  return {};
}

Expected<void> Tokenizer::Parts::make_searches() {
  // Of tokens that are written alike once normalised, a special one comes first.
  for (const bool is_special : {true, false})
    for (const AddedToken& token : added) {
      if (token.is_special != is_special) continue;
      if (!token.is_normalized) {
        raw_search.add(token.content, &token);
        continue;
      }
      TextBuffers buffers(false);
      TextPiece piece{.text = token.content};
      StepBudget budget{k_steps_base};
      COHORT_TRY(normalizer.apply(piece, buffers, budget));
      if (piece.text.size() > AddedTokenSearch::k_content_bytes_max)
        return Error{Errc::unsupported,
                     "added token " + std::to_string(token.id) + " is longer than 1024 bytes"};
      if (!piece.text.empty()) normalized_search.add(std::string(piece.text), &token);
    }
  raw_search.finish();
  normalized_search.finish();
  return {};
}

void Tokenizer::Parts::put(TokenId id, Span origin, Call& call) const {
  call.out.ids.push_back(id);
  if (call.options.wants_offsets) call.out.offsets.push_back(whole_characters(call.text, origin));
}

Expected<void> Tokenizer::Parts::encode(Call& call) const {
  Scratch& scratch = call.scratch;
  scratch.raw_parts.clear();
  const std::span<const size_t> plain_at = call.options.plain_at;
  const auto is_plain = [plain_at](Span span) {
    const auto next = std::ranges::upper_bound(plain_at, span.begin);
    return next != plain_at.end() && *next < span.end;
  };
  std::function<bool(Span)> raw_is_plain;
  if (!plain_at.empty()) raw_is_plain = is_plain;
  raw_search.cut(call.text, call.options.added_tokens, scratch.raw_parts, raw_is_plain);
  const TextPiece whole{.text = call.text, .is_first = true};
  for (const AddedPart& raw : scratch.raw_parts) {
    if (raw.token != nullptr) {
      put(raw.token->id, raw.span, call);
      continue;
    }
    TextPiece piece = whole.sub(raw.span);
    COHORT_TRY(normalizer.apply(piece, call.buffers, call.budget));
    scratch.parts.clear();
    std::function<bool(Span)> piece_is_plain;
    if (!plain_at.empty())
      piece_is_plain = [&](Span span) { return is_plain(piece.origin_of(span)); };
    normalized_search.cut(piece.text, call.options.added_tokens, scratch.parts, piece_is_plain);
    for (const AddedPart& part : scratch.parts) {
      if (part.token != nullptr)
        put(part.token->id, piece.origin_of(part.span), call);
      else
        COHORT_TRY(encode_piece(piece.sub(part.span), call));
    }
  }
  return {};
}

Expected<void> Tokenizer::Parts::encode_piece(const TextPiece& whole, Call& call) const {
  Scratch& scratch = call.scratch;
  scratch.pieces.assign(1, whole);
  COHORT_TRY(pre_tokenizer.apply(scratch.pieces, scratch.spare, call.buffers, call.budget));
  const bool wants_offsets = call.options.wants_offsets;
  for (const TextPiece& piece : scratch.pieces) {
    scratch.sizes.clear();
    COHORT_TRY(model.encode(piece.text, scratch.bpe, call.out.ids,
                            wants_offsets ? &scratch.sizes : nullptr));
    size_t begin = 0;
    for (const uint32_t size : scratch.sizes) {
      call.out.offsets.push_back(
          whole_characters(call.text, piece.origin_of({begin, begin + size})));
      begin += size;
    }
  }
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Expected<Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view name,
                                         std::span<const AddedToken> more) {
  auto read = TokenizerJson::parse(json);
  if (!read) return read.error().with_context(name);
  auto parts = Parts::read(*std::move(read), more);
  if (!parts) return parts.error().with_context(name);
  return Tokenizer(*std::move(parts));
}

Expected<Encoding> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > k_text_bytes_max)
    return Error{Errc::capacity, "a text of more than 1 GiB; encode it in parts"};
  std::string valid;
  if (!is_valid_utf8(text)) {
    valid = to_valid_utf8(text);
    text = valid;
  }
  Encoding out;
  const auto put_all = [&](const std::vector<TokenId>& ids, size_t at) {
    if (!options.adds_special_tokens) return;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    if (options.wants_offsets) out.offsets.resize(out.ids.size(), Span{at, at});
  };
  put_all(parts_->post_processor.before, 0);
  std::unique_ptr<Scratch> scratch = parts_->pool.take();
  Parts::Call call{text,
                   options,
                   out,
                   *scratch,
                   TextBuffers(options.wants_offsets || !options.plain_at.empty()),
                   {steps_for(text.size())}};
  const Expected<void> done = parts_->encode(call);
  parts_->pool.give_back(std::move(scratch));
  if (!done) return done.error();
  put_all(parts_->post_processor.behind, text.size());
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  const bool is_byte_level = parts_->decoder.is_byte_level();
  std::vector<std::string> tokens;
  std::string bytes;
  for (const TokenId id : ids) {
    if (options.skips_special_tokens && is_special(id)) continue;
    if (is_byte_level && !parts_->added_by_id.contains(id)) {
      if (const std::string_view known = parts_->model.bytes_of(id); known.data() != nullptr) {
        bytes += known;
        continue;
      }
    }
    const std::optional<std::string_view> known = token(id);
    if (!known) continue;
    if (is_byte_level)
      bytes += bytes_of_characters(*known).value_or(std::string(*known));
    else
      tokens.emplace_back(*known);
  }
  return is_byte_level ? to_valid_utf8(bytes) : parts_->decoder.decode(std::move(tokens));
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  const auto found = parts_->added_by_text.find(token);
  return found != parts_->added_by_text.end() ? found->second->id
                                              : parts_->model.vocabulary().id_of(token);
}

std::optional<std::string_view> Tokenizer::token(TokenId id) const {
  if (const auto found = parts_->added_by_id.find(id); found != parts_->added_by_id.end())
    return found->second->content;
  const std::string_view token = parts_->model.vocabulary().token(id);
  if (token.data() == nullptr) return std::nullopt;
  return token;
}

bool Tokenizer::is_special(TokenId id) const {
  const auto found = parts_->added_by_id.find(id);
  return found != parts_->added_by_id.end() && found->second->is_special;
}

TokenId Tokenizer::id_end() const {
  TokenId end = parts_->model.vocabulary().id_end();
  for (const AddedToken& token : parts_->added) end = std::max(end, token.id + 1);
  return end;
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const { return parts_->added; }
const Decoder& Tokenizer::decoder() const { return parts_->decoder; }

std::string StreamDecoder::next(TokenId id) {
  if (options_.skips_special_tokens && tokenizer_->is_special(id)) return "";
  const std::optional<std::string_view> token = tokenizer_->token(id);
  return token ? tokenizer_->decoder().next(*token, state_) : "";
}

std::string StreamDecoder::finish() { return tokenizer_->decoder().finish(state_); }

}  // namespace cohort::text
