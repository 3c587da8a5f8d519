#include "runtime/tensor/dtype.hpp"

namespace cohort::tensor {

size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::i32:
    case Dtype::u32:
      return 4;
    case Dtype::bf16:
      return 2;
    case Dtype::u8:
      return 1;
    case Dtype::f64:
      return 8;
  }
  return 0;
}

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::i32:
      return "i32";
    case Dtype::u8:
      return "u8";
    case Dtype::u32:
      return "u32";
    case Dtype::f64:
      return "f64";
  }
  return "unknown";
}

}  // namespace cohort::tensor
