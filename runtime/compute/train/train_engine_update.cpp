// TrainEngine: AdamW where the optimizer rests: on the card, on the host, or streamed between.
#include <algorithm>

#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {
namespace {

using State = TrainEngine::State;

constexpr int64_t k_host_piece = int64_t{1} << 18;  // [elements] one copy to the host and back

/// The arrays of one piece of a tensor, where they rest.
struct Piece {
  size_t spec = 0;
  int64_t begin = 0, count = 0;
  float *parameters = nullptr, *m = nullptr, *v = nullptr;
  const float* gradients = nullptr;
};

void run(const State& s, const Piece& at, const AdamwScale& scale) {
  s.math.adamw(
      {at.parameters, at.m, at.v, at.gradients, at.count, s.layout.specs[at.spec].is_decayed()},
      scale);
}

void copy(const State& s, float* to, const float* from, int64_t count) {
  s.math.copy(to, from, static_cast<size_t>(count) * sizeof(float));
}

/// The optimizer is on the host, and so is the arithmetic: gradients come down, and f32 parameters
/// with them, which go back.
void run_on_host(const State& s, const Piece& piece, const AdamwScale& scale,
                 std::vector<float>& staging) {
  staging.resize(static_cast<size_t>(2 * k_host_piece));
  Piece host = piece;
  float* gradients = staging.data();
  copy(s, gradients, piece.gradients, piece.count);
  host.gradients = gradients;
  const bool is_master_elsewhere = !s.has_cut_master();
  if (is_master_elsewhere) {
    host.parameters = staging.data() + k_host_piece;
    copy(s, host.parameters, piece.parameters, piece.count);
  }
  run(s, host, scale);
  if (is_master_elsewhere) copy(s, piece.parameters, host.parameters, piece.count);
}

/// The optimizer is on the host, the arithmetic on the card: moments, and a cut master, come up in
/// pieces and go back.
void run_swapped(const State& s, const Piece& piece, const AdamwScale& scale) {
  float* at = reinterpret_cast<float*>(s.swap.data());
  Piece card = piece;
  auto lift = [&](float*& array) {
    copy(s, at, array, piece.count);
    array = at;
    at += s.swap_elements();
  };
  lift(card.m);
  lift(card.v);
  if (s.has_cut_master()) lift(card.parameters);
  run(s, card, scale);
  copy(s, piece.m, card.m, piece.count);
  copy(s, piece.v, card.v, piece.count);
  if (s.has_cut_master()) copy(s, piece.parameters, card.parameters, piece.count);
}

/// Rounds the master of the piece into the bf16 parameters that products read.
void refresh(const State& s, const Piece& piece) {
  const HeldBuffer params = s.params_buffer();
  auto* to = reinterpret_cast<uint16_t*>(s.find(params, piece.spec, piece.begin));
  s.math.round(to, piece.parameters, piece.count);
}

}  // namespace

void update_parameters(const State& s, const AdamwScale& scale) {
  const HeldBuffer master = s.master_buffer(), grads = s.grads_buffer();
  const HeldBuffer m = s.m_buffer(), v = s.v_buffer();
  const bool is_swapped = s.options.zero.swap_optimizer, is_host = s.is_optimizer_hosted();
  // parameters that rest on the host, updated on a device: a piece at a time
  const bool goes_up = s.math.has_device() && s.options.zero.offload_params;
  std::vector<float> staging;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const TensorPart part = s.held(m, spec);
    int64_t most = part.count();
    if (goes_up) most = k_host_piece;
    if (is_host) most = is_swapped ? static_cast<int64_t>(s.swap_elements()) : k_host_piece;
    for (int64_t begin = part.begin; begin < part.end; begin += most) {
      const Piece piece{spec,
                        begin,
                        std::min(most, part.end - begin),
                        s.find_float(master, spec, begin),
                        s.find_float(m, spec, begin),
                        s.find_float(v, spec, begin),
                        s.find_float(grads, spec, begin)};
      if (!is_host)
        run(s, piece, scale);
      else if (is_swapped)
        run_swapped(s, piece, scale);
      else
        run_on_host(s, piece, scale, staging);
      if (s.is_bf16()) refresh(s, piece);
    }
  }
}

}  // namespace cohort::compute
