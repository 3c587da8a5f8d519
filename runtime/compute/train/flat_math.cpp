#include "runtime/compute/train/flat_math.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "runtime/compute/device/torch_device.hpp"
#include "runtime/compute/kernels/kernels.hpp"
#include "runtime/compute/train/train_state.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

constexpr int64_t k_piece = int64_t{1} << 22;  // [elements] f64 temporaries of a norm on a device

Tensor floats_at(const Device* device, const float* address, int64_t count) {
  return tensor_at(device, reinterpret_cast<const std::byte*>(address), count, at::kFloat);
}

/// The formula of cpu::kernels().adamw, tensor by tensor.
void adamw_on_device(const Device* device, const AdamwPiece& piece, const AdamwScale& scale) {
  at::NoGradGuard no_grad;
  const bool is_hosted = !device->holds(reinterpret_cast<const std::byte*>(piece.parameters));
  const Tensor rests = floats_at(is_hosted ? nullptr : device, piece.parameters, piece.count);
  Tensor m = floats_at(device, piece.m, piece.count), v = floats_at(device, piece.v, piece.count);
  Tensor parameters = rests.to(m.device());
  const Tensor g = floats_at(device, piece.gradients, piece.count) * scale.grad_scale;
  const float weight_decay = piece.is_decayed ? scale.weight_decay : 0.0f;
  const float rate = scale.learning_rate / scale.bias1;
  const float keep = 1.0f - scale.learning_rate * weight_decay;
  const float root_scale = 1.0f / std::sqrt(scale.bias2);
  m.mul_(scale.beta1).add_(g, 1.0f - scale.beta1);
  v.mul_(scale.beta2).addcmul_(g, g, 1.0f - scale.beta2);
  const Tensor denominator = v.sqrt().mul_(root_scale).add_(scale.eps);
  parameters.mul_(keep).addcdiv_(m, denominator, -rate);
  if (is_hosted) rests.copy_(parameters);
}

SquareSum squares_on_device(const Tensor& values, uint32_t largest) {
  constexpr double k_step = 67108864.0;  // 2^26, as gradient_norm.cpp
  const int exponent = largest == 0 ? 0 : std::ilogb(std::bit_cast<float>(largest)) + 1;
  const Tensor scaled = values.to(at::kDouble) * std::ldexp(1.0, -exponent);
  const Tensor square = scaled * scaled * k_step;
  const Tensor whole = square.round();  // to even, as the magic number does
  const Tensor low = ((square - whole) * k_step).round().add_(k_step);
  SquareSum sum;
  sum.high = static_cast<uint64_t>(whole.to(at::kLong).sum().item<int64_t>() - values.numel());
  sum.low = static_cast<uint64_t>(low.to(at::kLong).sum().item<int64_t>());
  return sum;
}

}  // namespace

FlatSource FlatSource::from(int64_t elements) const {
  if (elements == 0 || data == nullptr) return *this;
  COHORT_CHECK(owner.defined(), "a piece without its tensor has no element size");
  return {data + static_cast<size_t>(elements) * owner.element_size(), owner, begin + elements};
}

FlatMath::FlatMath(Device* device)
    : device_(device == nullptr || device->is_cpu() ? nullptr : device) {}

void FlatMath::copy(void* to, const void* from, size_t size_bytes) const {
  if (device_ == nullptr) {
    std::memcpy(to, from, size_bytes);
    return;
  }
  const auto done =
      device_->copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size_bytes);
  if (!done) throw std::runtime_error(done.error().detail);
}

void FlatMath::copy(void* to, const FlatSource& from, size_t size_bytes) const {
  if (device_ == nullptr || !from.owner.defined()) {
    copy(to, from.data, size_bytes);
    return;
  }
  // a tensor of torch's own: no block of the device has its address
  at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(size_bytes / from.owner.element_size());
  tensor_at(is_on_device(to) ? device_ : nullptr, static_cast<const std::byte*>(to), count,
            from.owner.scalar_type())
      .copy_(from.owner.view({-1}).narrow(0, from.begin, count));
}

void FlatMath::zero(void* to, size_t size_bytes) const {
  if (!is_on_device(to)) {
    std::memset(to, 0, size_bytes);
    return;
  }
  at::NoGradGuard no_grad;
  tensor_at(device_, static_cast<const std::byte*>(to), static_cast<int64_t>(size_bytes), at::kByte)
      .zero_();
}

void FlatMath::add(float* to, const FlatSource& from, int64_t count, bool is_half) const {
  if (is_on_device(to)) {
    at::NoGradGuard no_grad;
    const Tensor source = from.owner.defined() ? from.owner.view({-1}).narrow(0, from.begin, count)
                                               : tensor_at(device_, from.data, count,
                                                           is_half ? at::kBFloat16 : at::kFloat);
    floats_at(device_, to, count).add_(source);
  } else if (is_half) {
    cpu::kernels().bf16.add(to, reinterpret_cast<const uint16_t*>(from.data), count);
  } else {
    cpu::kernels().add(to, reinterpret_cast<const float*>(from.data), count);
  }
}

void FlatMath::adamw(const AdamwPiece& piece, const AdamwScale& scale) const {
  if (is_on_device(piece.m))
    adamw_on_device(device_, piece, scale);
  else
    cpu::kernels().adamw(piece, scale);
}

void FlatMath::round(uint16_t* to, const float* from, int64_t count) const {
  const bool is_from_device = is_on_device(from), is_to_device = is_on_device(to);
  if (!is_from_device && !is_to_device) {
    cpu::kernels().narrow(from, to, count);
    return;
  }
  at::NoGradGuard no_grad;
  const auto place = [&](bool is_device) { return is_device ? device_ : nullptr; };
  tensor_at(place(is_to_device), reinterpret_cast<const std::byte*>(to), count, at::kBFloat16)
      .copy_(floats_at(place(is_from_device), from, count));
}

uint32_t FlatMath::largest_magnitude(std::span<const float> values) const {
  if (values.empty() || !is_on_device(values.data())) return compute::largest_magnitude(values);
  at::NoGradGuard no_grad;
  const Tensor bits = tensor_at(device_, reinterpret_cast<const std::byte*>(values.data()),
                                static_cast<int64_t>(values.size()), at::kInt);
  return static_cast<uint32_t>(bits.bitwise_and(0x7FFFFFFF).max().item<int32_t>());
}

SquareSum FlatMath::sum_of_squares(std::span<const float> values, uint32_t largest) const {
  if (values.empty() || !is_on_device(values.data()))
    return compute::sum_of_squares(values, largest);
  at::NoGradGuard no_grad;
  SquareSum sum;
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t at = 0; at < count; at += k_piece)
    sum += squares_on_device(floats_at(device_, values.data() + at, std::min(k_piece, count - at)),
                             largest);
  return sum;
}

std::span<const std::byte> FlatMath::on_host(std::span<const std::byte> bytes,
                                             std::vector<std::byte>& copied) const {
  if (bytes.empty() || !is_on_device(bytes.data())) return bytes;
  copied.resize(bytes.size());
  copy(copied.data(), bytes.data(), bytes.size());
  return copied;
}

}  // namespace cohort::compute
