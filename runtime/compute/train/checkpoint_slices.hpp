#pragma once
/// Slices of tensors in the files of a checkpoint: "<tensor>[<begin>:<end>]" are elements
/// [begin, end) of the tensor taken flat, as one F32 row. A reader needs no knowledge of how many
/// ranks wrote, nor at which stage. Pure but for the files that are read.
///
/// CKPT-1: a value is read from the one slice that has it; a gap or an overlap is Errc::corrupt
/// with tensor and file, before anything is changed.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compute/train/safetensors.hpp"
#include "runtime/compute/train/zero_layout.hpp"

namespace cohort::compute {

std::string slice_name(std::string_view tensor, const TensorPart& part);

struct SliceName {
  std::string tensor;
  TensorPart part;
};
/// Returns nothing for a name that is not a slice's.
std::optional<SliceName> parse_slice_name(std::string_view name);

/// Returns the name of the file that rank `rank` of `ranks` writes.
std::string slice_file(int rank, int ranks);

/// The slices of several files, by tensor. Files stay mapped.
class SliceTable {
 public:
  /// Adds every tensor of a file: slices, or whole tensors.
  Expected<void> add(const SafetensorsFile& file, const std::string& where);
  /// Checks that elements [begin, end) of `tensor` are there once, and all slices fit `count`.
  Expected<void> check(const std::string& tensor, int64_t count, const TensorPart& part) const;
  /// Copies them. REQUIRES check().
  void copy(const std::string& tensor, const TensorPart& part, std::span<float> to) const;

 private:
  struct Slice {
    TensorPart part;
    NamedTensor source;
    std::string where;
  };
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Slice>, std::less<>> slices_;  // sorted by begin
};

}  // namespace cohort::compute
