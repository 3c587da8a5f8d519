#pragma once
/// How far apart the logits of two models are. Torch-free header.
#include <functional>

namespace at {
class Tensor;
}

namespace cohort::compute {

/// Logits of a student and of a teacher at the same positions, both [M, V], f32. Returns [M], a
/// number of each position, differentiable in the student. A pure function, called from several
/// threads, on any rows of a micro-batch at a time: what it gives a row depends on that row alone.
using LogitDivergence =
    std::function<at::Tensor(const at::Tensor& student, const at::Tensor& teacher)>;

}  // namespace cohort::compute
