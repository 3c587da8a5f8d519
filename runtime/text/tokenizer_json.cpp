#include "runtime/text/tokenizer_json.hpp"

#include <optional>
#include <utility>

#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

using Json = nlohmann::json;

/// Takes the parser's events. A false return ends the parse; `error` then says why.
class TokenizerEvents {
 public:
  explicit TokenizerEvents(TokenizerJson& out) : out_(out) {}

  bool null() { return value(nullptr); }
  bool boolean(bool x) { return value(x); }
  bool number_integer(Json::number_integer_t x) { return in_vocabulary() ? bad_id() : value(x); }
  bool number_unsigned(Json::number_unsigned_t x) {
    if (!in_vocabulary()) return value(x);
    if (x >= static_cast<uint64_t>(Vocabulary::k_id_end)) return bad_id();
    out_.vocabulary.add(token_, static_cast<TokenId>(x));
    return true;
  }
  bool number_float(Json::number_float_t x, const std::string&) {
    return in_vocabulary() ? bad_id() : value(x);
  }
  bool string(std::string& x) {
    if (in_vocabulary()) return bad_id();
    if (is_merge_pair_) return merge_part(x);
    if (place_ == Place::merges) return merge_text(x);
    return value(std::move(x));
  }
  bool binary(Json::binary_t&) { return false; }
  bool key(std::string& x) {
    if (place_ == Place::vocabulary)
      token_.swap(x);
    else
      key_.swap(x);
    return true;
  }

  bool start_object(size_t) {
    if (in_vocabulary()) return bad_id();
    if (place_ == Place::merges) return bad_merge();
    if (stack_.size() == 2 && in_model_ && key_ == "vocab") {
      place_ = Place::vocabulary;
      out_.has_vocabulary = true;
      return true;
    }
    if (stack_.size() == 1 && key_ == "model") in_model_ = true;
    return open(Json::object());
  }
  bool end_object() {
    if (place_ == Place::vocabulary) return place_ = Place::tree, true;
    stack_.pop_back();
    if (stack_.size() == 1) in_model_ = false;
    return true;
  }
  bool start_array(size_t) {
    if (in_vocabulary()) return bad_id();
    if (place_ == Place::merges) {
      if (is_merge_pair_) return bad_merge();
      is_merge_pair_ = true;
      merge_parts_ = 0;
      return true;
    }
    if (stack_.size() == 2 && in_model_ && key_ == "merges") {
      place_ = Place::merges;
      out_.has_merges = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() {
    if (is_merge_pair_) {
      is_merge_pair_ = false;
      return merge_parts_ == 2 || bad_merge();
    }
    if (place_ == Place::merges) return place_ = Place::tree, true;
    stack_.pop_back();
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …" without its bracket.
    std::string what = e.what();
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    if (!is_valid_utf8(what)) what = to_valid_utf8(what);
    return fail("is no JSON, byte " + std::to_string(at) + ": " + what.substr(0, 200));
  }

  std::optional<Error> error;

 private:
  enum class Place : uint8_t { tree, vocabulary, merges };
  bool in_vocabulary() const { return place_ == Place::vocabulary; }

  bool fail(std::string what) {
    if (!error) error = Error{Errc::config, std::move(what)};
    return false;
  }
  bool bad_id() {
    return fail("model.vocab[\"" + token_.substr(0, 64) + "\"] must be a whole number from 0 to " +
                std::to_string(Vocabulary::k_id_end - 1));
  }
  bool bad_merge() {
    return fail("model.merges[" + std::to_string(out_.merge_ends.size()) +
                "] must be \"a b\" or [\"a\", \"b\"]");
  }

  bool merge_part(const std::string& x) {
    if (++merge_parts_ > 2) return bad_merge();
    out_.merge_bytes += x;
    const auto end = static_cast<uint32_t>(out_.merge_bytes.size());
    if (merge_parts_ == 1)
      out_.merge_ends.push_back({end, end});
    else
      out_.merge_ends.back().right = end;
    return true;
  }
  bool merge_text(const std::string& x) {
    const size_t space = x.find(' ');
    if (space == std::string::npos || x.find(' ', space + 1) != std::string::npos)
      return bad_merge();
    const auto begin = static_cast<uint32_t>(out_.merge_bytes.size());
    out_.merge_bytes.append(x, 0, space).append(x, space + 1);
    out_.merge_ends.push_back(
        {begin + static_cast<uint32_t>(space), static_cast<uint32_t>(out_.merge_bytes.size())});
    return true;
  }

  template <class T>
  bool value(T&& x) {
    if (place_ == Place::merges) return bad_merge();
    if (in_vocabulary()) return bad_id();
    place(Json(std::forward<T>(x)));
    return true;
  }
  bool open(Json x) {
    if (stack_.size() >= TokenizerJson::k_depth_max)
      return fail("is nested deeper than " + std::to_string(TokenizerJson::k_depth_max));
    stack_.push_back(place(std::move(x)));
    return true;
  }
  /// Puts a value where the parse stands; the parent's other values do not move, as only the last
  /// one of an array is open.
  Json* place(Json x) {
    if (stack_.empty()) {
      out_.tree = std::move(x);
      return &out_.tree;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(x));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(x);
    return &slot;
  }

  TokenizerJson& out_;
  std::vector<Json*> stack_;  // open objects and arrays
  std::string key_, token_;
  Place place_ = Place::tree;
  bool in_model_ = false;
  bool is_merge_pair_ = false;
  int merge_parts_ = 0;
};

}  // namespace

Expected<TokenizerJson> TokenizerJson::parse(std::string_view text) {
  if (text.size() > k_file_bytes_max)
    return Error{Errc::config, "is larger than " + std::to_string(k_file_bytes_max >> 20) + " MiB"};
  TokenizerJson out;
  TokenizerEvents events(out);
  const bool is_read = Json::sax_parse(text.begin(), text.end(), &events);
  if (events.error) return *events.error;
  if (!is_read) return Error{Errc::config, "is no JSON"};
  return out;
}

}  // namespace cohort::text
