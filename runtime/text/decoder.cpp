#include "runtime/text/decoder.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/text/byte_level.hpp"
#include "runtime/text/json_fields.hpp"
#include "runtime/text/text_piece.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr int k_decoder_depth_max = 8;
constexpr uint64_t k_decode_steps = 1'000'000;  // of a regular expression, for one token

std::string bytes_of_token(std::string_view token) {
  return bytes_of_characters(token).value_or(std::string(token));
}

/// Returns the byte of "<0xHH>". "+" passes for a digit, as it does in the reference.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::string replaced(const std::string& token, const Pattern& pattern, std::string_view content) {
  TextBuffers buffers(false);
  TextPiece piece{.text = token};
  StepBudget budget{k_decode_steps};
  // A pattern that takes too long leaves the token as it is: decoding never fails.
  if (auto done = buffers.replace(piece, pattern, content, budget); !done) return token;
  return std::string(piece.text);
}

std::string stripped(std::string_view token, std::string_view content, size_t start, size_t stop) {
  for (; start > 0 && token.starts_with(content); --start) token.remove_prefix(content.size());
  for (; stop > 0 && token.ends_with(content); --stop) token.remove_suffix(content.size());
  return std::string(token);
}

void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> joined;
  std::string run;
  size_t run_size = 0;
  const auto end_run = [&] {
    if (run_size == 0) return;
    if (is_valid_utf8(run)) {
      joined.push_back(run);
    } else {
      joined.insert(joined.end(), run_size, std::string(k_replacement));
    }
    run.clear();
    run_size = 0;
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of_token(token)) {
      run += *byte;
      ++run_size;
      continue;
    }
    end_run();
    joined.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(joined);
}

std::string join(const std::vector<std::string>& tokens, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += between;
    text += tokens[i];
  }
  return text;
}

}  // namespace

Expected<Decoder> Decoder::read(const nlohmann::json& json) {
  Decoder decoder;
  COHORT_TRY(decoder.add(json, "decoder", 0));
  decoder.joins_by_spaces_ = json.is_null();
  decoder.can_stream_ = decoder.find_stream_steps();
  return decoder;
}

Expected<void> Decoder::add(const nlohmann::json& json, const std::string& where, int depth) {
  if (json.is_null()) return {};
  COHORT_ASSIGN(const std::string type, type_of(json, where));
  if (type != "Sequence") {
    COHORT_ASSIGN(Step step, read_step(json, type, where));
    steps_.push_back(std::move(step));
    return {};
  }
  if (depth >= k_decoder_depth_max) return Error{Errc::config, where + " is nested too deep"};
  JsonFields fields(json, where);
  size_t i = 0;
  for (const nlohmann::json& inner : fields.array("decoders"))
    COHORT_TRY(add(inner, fields.path("decoders") + "[" + std::to_string(i++) + "]", depth + 1));
  return fields.finish();
}

Expected<Decoder::Step> Decoder::read_step(const nlohmann::json& json, const std::string& type,
                                           const std::string& where) const {
  using Kind = Step::Kind;
  JsonFields fields(json, where);
  Step step;
  if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    step.pattern = fields.pattern("pattern");
    step.content = fields.text("content");
  } else if (type == "ByteFallback") {
    step.kind = Kind::byte_fallback;
  } else if (type == "Fuse") {
    step.kind = Kind::fuse;
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    step.content = fields.character("content");
    step.start = static_cast<size_t>(fields.number("start", 0, 1 << 20));
    step.stop = static_cast<size_t>(fields.number("stop", 0, 1 << 20));
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    step.content = fields.character("replacement");
    const std::string scheme = fields.text("prepend_scheme", "always");
    if (scheme != "first" && scheme != "always" && scheme != "never")
      fields.fail("prepend_scheme", "must be first, always or never");
    step.drops_first = scheme != "never" && fields.flag("add_prefix_space", true);
  } else {
    return Error{Errc::unsupported,
                 where + ": the decoder \"" + type.substr(0, 64) +
                     "\" is not built; ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace "
                     "and Sequence are"};
  }
  COHORT_TRY(fields.finish());
  return step;
}

/// Sorts the steps into what a stream does: some on each token, then ByteLevel or ByteFallback and
/// Metaspace or Fuse, then a Strip of the text's begin. Returns false for any other chain.
bool Decoder::find_stream_steps() {
  using Kind = Step::Kind;
  size_t i = 0;
  const auto is = [&](Kind kind) { return i < steps_.size() && steps_[i].kind == kind; };
  while (is(Kind::replace) || is(Kind::strip) || is(Kind::metaspace)) ++i;
  token_steps_ = i;
  if (is(Kind::byte_level)) {
    is_byte_level_ = true;
    return ++i == steps_.size();
  }
  if (is(Kind::byte_fallback)) {
    has_byte_fallback_ = true;
    ++i;
    // What a run of bytes becomes is taken apart again, but not U+FFFD for bytes that wait.
    if (is(Kind::metaspace) && steps_[i].content != k_replacement) metaspace_ = i++;
  }
  if (is(Kind::fuse)) {
    ++i;
    if (is(Kind::strip) && steps_[i].stop == 0) strip_ = i++;
  }
  return i == steps_.size();
}

std::string Decoder::of_token(const Step& step, std::string token, bool is_first) {
  switch (step.kind) {
    case Step::Kind::replace:
      return replaced(token, step.pattern, step.content);
    case Step::Kind::strip:
      return stripped(token, step.content, step.start, step.stop);
    case Step::Kind::metaspace:
      return replaced(token, Pattern::of_string(step.content),
                      is_first && step.drops_first ? "" : " ");
    default:
      return token;
  }
}

void Decoder::run(const Step& step, std::vector<std::string>& tokens) {
  switch (step.kind) {
    case Step::Kind::byte_level: {
      std::string bytes;
      for (const std::string& token : tokens) bytes += bytes_of_token(token);
      tokens = {to_valid_utf8(bytes)};
      break;
    }
    case Step::Kind::byte_fallback:
      join_bytes(tokens);
      break;
    case Step::Kind::fuse:
      tokens = {join(tokens, "")};
      break;
    default:
      for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = of_token(step, std::move(tokens[i]), i == 0);
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) run(step, tokens);
  return join(tokens, joins_by_spaces_ ? " " : "");
}

std::string Decoder::next(std::string_view token, DecoderState& state) const {
  if (!can_stream_) {
    state.tokens_.emplace_back(token);
    return "";
  }
  std::string text(token);
  for (size_t i = 0; i < token_steps_; ++i)
    text = of_token(steps_[i], std::move(text), state.is_first_);
  if (joins_by_spaces_ && !state.is_first_) text.insert(0, 1, ' ');
  if (is_byte_level_) {
    std::string bytes = std::move(state.bytes_) + bytes_of_token(text);
    state.bytes_.clear();
    text.clear();
    for (std::string_view rest = bytes; !rest.empty();) {
      const Utf8Prefix prefix = utf8_prefix(rest);
      if (prefix.kind == Utf8Prefix::Kind::incomplete) {
        state.bytes_ = rest;
        break;
      }
      text +=
          prefix.kind == Utf8Prefix::Kind::character ? rest.substr(0, prefix.size) : k_replacement;
      rest.remove_prefix(prefix.size);
    }
  } else if (has_byte_fallback_) {
    text = next_of_run(text, state);
  }
  state.is_first_ = false;
  return hold(std::move(text), state);
}

std::string Decoder::next_of_run(std::string_view token, DecoderState& state) const {
  const auto give_up = [&] {
    std::string text;
    for (size_t i = 0; i < state.bytes_.size(); ++i) text += k_replacement;
    state.bytes_.clear();
    return text;
  };
  const auto behind = [&](std::string text, bool is_first) {
    return metaspace_ == SIZE_MAX ? text : of_token(steps_[metaspace_], std::move(text), is_first);
  };
  const std::optional<char> byte = byte_of_token(token);
  if (!byte) {
    std::string text = give_up();
    state.is_run_broken_ = false;
    state.is_first_run_ = false;
    return text + behind(std::string(token), state.is_first_);
  }
  state.bytes_ += *byte;
  if (state.is_run_broken_) return give_up();
  const Utf8Prefix prefix = utf8_prefix(state.bytes_);
  if (prefix.kind == Utf8Prefix::Kind::incomplete) return "";
  if (prefix.kind == Utf8Prefix::Kind::character)
    return behind(std::exchange(state.bytes_, {}), state.is_first_run_);
  state.is_run_broken_ = true;
  return give_up();
}

std::string Decoder::hold(std::string text, DecoderState& state) const {
  if (strip_ != SIZE_MAX) {
    const Step& strip = steps_[strip_];
    while (state.stripped_ < strip.start && text.starts_with(strip.content)) {
      text.erase(0, strip.content.size());
      ++state.stripped_;
    }
    if (!text.empty()) state.stripped_ = strip.start;
  }
  state.held_ += text;
  if (!state.bytes_.empty() || state.held_.ends_with(k_replacement)) return "";
  return std::exchange(state.held_, {});
}

std::string Decoder::finish(DecoderState& state) const {
  std::string text;
  if (!can_stream_) {
    text = decode(std::move(state.tokens_));
  } else {
    text = std::move(state.held_);
    if (is_byte_level_) {
      text += to_valid_utf8(state.bytes_);
    } else {
      for (size_t i = 0; i < state.bytes_.size(); ++i) text += k_replacement;
    }
  }
  state = DecoderState();
  return text;
}

}  // namespace cohort::text
