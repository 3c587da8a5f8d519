#pragma once
/// Thrift's compact protocol, read from bytes that may say anything. A value that runs over the end
/// or nests deeper than k_depth_max makes the reader bad: from there every answer is empty or 0, so
/// a caller asks is_bad() once at the end. Nothing is allocated. Owner: one thread.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::columnar {

class CompactReader {
 public:
  static constexpr int k_depth_max = 32;
  enum Type : uint8_t {
    stop = 0,
    yes = 1,  // booleans of a field are in its header
    no = 2,
    i8 = 3,
    i16 = 4,
    i32 = 5,
    i64 = 6,
    real = 7,
    binary = 8,
    list = 9,
    set = 10,
    map = 11,
    structure = 12,
  };
  struct Field {
    uint8_t type = stop;
    int64_t id = 0;
    explicit operator bool() const { return type != stop; }
  };

  explicit CompactReader(std::string_view bytes) : bytes_(bytes) {}

  bool is_bad() const { return is_bad_; }
  /// Bytes read so far.
  size_t position() const { return at_; }

  /// The header of the next field of a struct, after field `previous` (0: none). False at its end.
  Field field(int64_t previous);
  /// Elements of a list whose header is next; at most as many as bytes are left.
  size_t list_size();
  int64_t integer();  // i8 to i64
  std::string_view binary_value();
  void skip(const Field& field) { skip(field.type, 0, true); }
  void fail() { is_bad_ = true; }

  /// Calls `read(field)` for each field of the struct that starts here; `read` returns whether it
  /// took the value, else it is skipped.
  template <class Read>
  void structure_of(Read&& read) {
    if (++depth_ > k_depth_max) is_bad_ = true;
    for (int64_t id = 0; !is_bad_;) {
      const Field next = field(id);
      if (!next) break;
      id = next.id;
      if (!read(next)) skip(next);
    }
    --depth_;
  }

 private:
  uint8_t byte();
  uint64_t varint();
  void advance(uint64_t count);
  void skip(uint8_t type, int depth, bool is_field);
  void skip_list(int depth);
  void skip_map(int depth);

  std::string_view bytes_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_bad_ = false;
};

}  // namespace cohort::columnar
