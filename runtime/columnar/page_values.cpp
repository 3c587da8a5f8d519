#include "runtime/columnar/page_values.hpp"

#include <fmt/format.h>

namespace cohort::columnar {
namespace {

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

uint64_t sign_extended(uint64_t value) {
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));
}

/// Bytes that a plain value takes at least.
size_t plain_bytes(Physical type) {
  return type == Physical::int64 || type == Physical::real64 ? 8 : 4;
}

Error damaged() { return {Errc::corrupt, "its bytes are damaged"}; }

}  // namespace

std::string name_of(Encoding encoding) {
  static constexpr std::string_view k_names[] = {
      "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
      "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
      "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  const auto number = static_cast<int64_t>(encoding);
  return number >= 0 && number < static_cast<int64_t>(std::size(k_names))
             ? std::string(k_names[number])
             : fmt::format("number {}", number);
}

Expected<void> PageValues::begin_lengths(DeltaReader& lengths) {
  lengths = DeltaReader(bytes_.substr(at_));
  const size_t size = lengths.is_bad() ? std::string_view::npos : lengths.size_bytes();
  if (size == std::string_view::npos) return damaged();
  at_ += size;
  return {};
}

Expected<PageValues> PageValues::create(Physical type, Encoding encoding, std::string_view bytes,
                                        const Dictionary* dictionary) {
  PageValues values;
  values.type_ = type;
  values.encoding_ = encoding;
  values.bytes_ = bytes;
  const Error unfit{Errc::corrupt,
                    fmt::format("encoding {} of type {}", name_of(encoding), name_of(type))};
  switch (encoding) {
    case Encoding::plain:
      return values;
    case Encoding::plain_dictionary:
    case Encoding::dictionary: {
      if (dictionary == nullptr) return Error{Errc::corrupt, "a dictionary page is missing"};
      const int width = bytes.empty() ? 0 : static_cast<uint8_t>(bytes.front());
      if (width > 32) return damaged();
      values.dictionary_ = dictionary;
      values.runs_ = RunReader(bytes.substr(bytes.empty() ? 0 : 1), width);
      return values;
    }
    case Encoding::runs: {
      if (type != Physical::boolean) return unfit;
      if (bytes.size() < 4) return damaged();
      const uint64_t size = little_endian(bytes.substr(0, 4));
      values.runs_ = RunReader(bytes.substr(4, static_cast<size_t>(size)), 1);
      return values;
    }
    case Encoding::delta:
      if (type != Physical::int32 && type != Physical::int64) return unfit;
      values.numbers_ = DeltaReader(bytes);
      return values;
    case Encoding::delta_bytes:
    case Encoding::delta_lengths:
      if (type != Physical::bytes) return unfit;
      if (encoding == Encoding::delta_bytes) COHORT_TRY(values.begin_lengths(values.prefixes_));
      COHORT_TRY(values.begin_lengths(values.numbers_));
      return values;
    case Encoding::bit_packed:
      break;
  }
  return Error{Errc::unsupported,
               fmt::format("encoding {} is not read; write the file with pyarrow's or pandas' "
                           "defaults",
                           name_of(encoding))};
}

bool PageValues::take_bytes(size_t size, std::string_view& bytes) {
  if (size > bytes_.size() - at_) return false;
  bytes = bytes_.substr(at_, size);
  at_ += size;
  return true;
}

bool PageValues::next_plain(Value& value) {
  std::string_view raw;
  switch (type_) {
    case Physical::boolean: {
      const auto byte = static_cast<size_t>(bit_ / 8);
      if (byte >= bytes_.size()) return false;
      value.bits = static_cast<uint8_t>(bytes_[byte]) >> bit_ % 8 & 1U;
      ++bit_;
      return true;
    }
    case Physical::int32:
    case Physical::real32:
      if (!take_bytes(4, raw)) return false;
      value.bits = little_endian(raw);
      if (type_ == Physical::int32) value.bits = sign_extended(value.bits);
      return true;
    case Physical::int64:
    case Physical::real64:
      if (!take_bytes(8, raw)) return false;
      value.bits = little_endian(raw);
      return true;
    case Physical::bytes:
      return take_bytes(4, raw) && take_bytes(static_cast<size_t>(little_endian(raw)), value.text);
    case Physical::int96:
    case Physical::fixed_bytes:
      break;
  }
  return false;
}

/// DELTA_BYTE_ARRAY: a prefix of the value before, and what follows it.
bool PageValues::next_suffix(Value& value) {
  int64_t prefix = 0, size = 0;
  std::string_view suffix;
  if (!prefixes_.next(prefix) || !numbers_.next(size)) return false;
  if (prefix < 0 || static_cast<uint64_t>(prefix) > text_.size() || size < 0 ||
      !take_bytes(static_cast<size_t>(size), suffix))
    return false;
  text_.resize(static_cast<size_t>(prefix));
  text_ += suffix;
  value.text = text_;
  return true;
}

bool PageValues::next(Value& value) {
  uint32_t number = 0;
  int64_t wide = 0;
  switch (encoding_) {
    case Encoding::plain:
      return next_plain(value);
    case Encoding::plain_dictionary:
    case Encoding::dictionary:
      if (!runs_.next(number) || number >= dictionary_->size()) return false;
      value = (*dictionary_)[number];
      return true;
    case Encoding::runs:
      if (!runs_.next(number)) return false;
      value.bits = number & 1;
      return true;
    case Encoding::delta:
      if (!numbers_.next(wide)) return false;
      value.bits = static_cast<uint64_t>(wide);
      if (type_ == Physical::int32) value.bits = sign_extended(value.bits);
      return true;
    case Encoding::delta_lengths:
      return numbers_.next(wide) && wide >= 0 && take_bytes(static_cast<size_t>(wide), value.text);
    case Encoding::delta_bytes:
      return next_suffix(value);
    case Encoding::bit_packed:
      break;
  }
  return false;
}

Expected<Dictionary> read_dictionary(Physical type, std::string_view bytes, int64_t count) {
  if (type == Physical::boolean || count < 0 ||
      static_cast<uint64_t>(count) > bytes.size() / plain_bytes(type))
    return damaged();
  COHORT_ASSIGN(PageValues plain, PageValues::create(type, Encoding::plain, bytes, nullptr));
  Dictionary values(static_cast<size_t>(count));
  for (Value& value : values) {
    if (!plain.next(value)) return damaged();
  }
  return values;
}

}  // namespace cohort::columnar
