#include "runtime/tensor/dtype.hpp"

#include <iterator>

#include "runtime/base/text.hpp"

namespace cohort::tensor {

size_t size_of(Dtype dtype) {
  constexpr size_t k_sizes[] = {0, 4, 2, 4, 1, 4, 8};
  const auto number = static_cast<size_t>(dtype);
  return number < std::size(k_sizes) ? k_sizes[number] : 0;
}

std::string_view to_string(Dtype dtype) {
  constexpr std::string_view k_names[] = {"unknown", "f32", "bf16", "i32", "u8", "u32", "f64"};
  return name_in(k_names, dtype);
}

}  // namespace cohort::tensor
