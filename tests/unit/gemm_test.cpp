// The bf16 products of every instruction set this CPU runs, against f64 and against themselves.
#include "runtime/compute/kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute::cpu {
namespace {

/// A matrix of noise inside a larger one of NaN: what is read beside it shows.
struct Operand {
  Operand(int64_t rows, int64_t columns, bool is_transposed, uint64_t seed)
      : stride((is_transposed ? rows : columns) + 3) {
    const int64_t lines = is_transposed ? columns : rows;
    data.assign(static_cast<size_t>(lines * stride), to_bf16(std::nanf("")));
    matrix = {data.data(), is_transposed ? 1 : stride, is_transposed ? stride : 1};
    Rng rng(seed);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        data[static_cast<size_t>(i * matrix.row_stride + j * matrix.column_stride)] =
            to_bf16(static_cast<float>(2 * rng.uniform() - 1));
  }
  float at(int64_t i, int64_t j) const {
    return from_bf16(data[static_cast<size_t>(i * matrix.row_stride + j * matrix.column_stride)]);
  }
  int64_t stride;
  std::vector<uint16_t> data;
  Bf16Matrix matrix;
};

void run(const GemmKernel& kernel, const Bf16Gemm& gemm) {
  constexpr size_t k_line = 64;
  const size_t bytes =
      (static_cast<size_t>(gemm_scratch_bytes(gemm)) + k_line - 1) / k_line * k_line;
  const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(k_line, bytes),
                                                            &std::free);
  kernel.product(gemm, static_cast<std::byte*>(scratch.get()));
}

struct GemmShape {
  int64_t rows, depth, columns;
};

class GemmTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernel_ = gemm_kernel_named(GetParam());
    if (kernel_ == nullptr) GTEST_SKIP() << "not on this CPU";
  }
  const GemmKernel* kernel_ = nullptr;
};

Bf16Gemm gemm_of(const GemmShape& shape, const Operand& a, const Operand& b) {
  Bf16Gemm gemm;
  gemm.rows = shape.rows;
  gemm.depth = shape.depth;
  gemm.columns = shape.columns;
  gemm.a = a.matrix;
  gemm.b = b.matrix;
  return gemm;
}

double exact(const Operand& a, const Operand& b, int64_t i, int64_t j, int64_t depth) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += double{a.at(i, k)} * double{b.at(k, j)};
  return sum;
}

// Sums of `depth` products in [-1, 1], in f32.
double sum_error(int64_t depth) { return 1e-6 * std::sqrt(static_cast<double>(depth)) + 1e-6; }
// bf16 has 8 bits.
double rounding_error(double value) { return std::abs(value) / 256 + 1e-6; }

TEST_P(GemmTest, AgreesWithF64InAnyLayout) {
  const std::vector<GemmShape> shapes = {{1, 1, 1},  {5, 7, 3},      {17, 33, 31},   {33, 64, 65},
                                         {40, 0, 3}, {70, 1000, 40}, {300, 600, 70}, {9, 40, 2100}};
  for (const GemmShape& shape : shapes)
    for (const bool is_a_transposed : {false, true})
      for (const bool is_b_transposed : {false, true}) {
        const Operand a(shape.rows, shape.depth, is_a_transposed, 1),
            b(shape.depth, shape.columns, is_b_transposed, 2),
            addend(shape.rows, shape.columns, false, 3);
        const int64_t stride = shape.columns + 5;
        std::vector<uint16_t> y(static_cast<size_t>(shape.rows * stride), 7), sum = y;
        std::vector<float> wide(y.size(), 0.5F), fresh(y.size(), std::nanf(""));
        Bf16Gemm gemm = gemm_of(shape, a, b);
        gemm.wide = wide.data();
        gemm.wide_stride = gemm.y_stride = stride;
        run(*kernel_, gemm);
        gemm.wide = fresh.data();
        gemm.is_first = true;
        run(*kernel_, gemm);
        gemm.y = y.data();
        run(*kernel_, gemm);
        gemm.y = sum.data();
        gemm.addend = addend.data.data();
        gemm.addend_stride = addend.stride;
        run(*kernel_, gemm);
        for (int64_t i = 0; i < shape.rows; ++i) {
          for (int64_t j = 0; j < shape.columns; ++j) {
            const auto at = static_cast<size_t>(i * stride + j);
            const double value = exact(a, b, i, j, shape.depth), more = value + addend.at(i, j);
            const double error = sum_error(shape.depth);
            ASSERT_EQ(wide[at], 0.5F + from_bf16(y[at])) << i << ", " << j;
            ASSERT_EQ(fresh[at], from_bf16(y[at])) << i << ", " << j;
            ASSERT_NEAR(from_bf16(y[at]), value, error + rounding_error(value)) << i << ", " << j;
            ASSERT_NEAR(from_bf16(sum[at]), more, error + rounding_error(more)) << i << ", " << j;
          }
          for (int64_t j = shape.columns; j < stride; ++j) {  // what lies behind a row stays
            ASSERT_EQ(y[static_cast<size_t>(i * stride + j)], 7);
            ASSERT_EQ(wide[static_cast<size_t>(i * stride + j)], 0.5F);
          }
        }
      }
}

TEST_P(GemmTest, ARowHasTheSameBitsForAnyRowsBesideIt) {  // KERNEL-1
  const GemmShape shape{290, 1100, 70};
  const Operand a(shape.rows, shape.depth, false, 1), b(shape.depth, shape.columns, true, 2);
  const auto product_of = [&](int64_t first, int64_t rows) {
    Bf16Gemm gemm = gemm_of({rows, shape.depth, shape.columns}, a, b);
    gemm.a.data += first * gemm.a.row_stride;
    std::vector<float> sums(static_cast<size_t>(rows * shape.columns));
    gemm.wide = sums.data();
    gemm.wide_stride = shape.columns;
    run(*kernel_, gemm);
    return sums;
  };
  const std::vector<float> all = product_of(0, shape.rows);
  for (const int64_t rows : {1, 8, 15, 16, 17, 31, 33, 100, 257})
    for (const int64_t first : {int64_t{0}, int64_t{7}, shape.rows - rows}) {
      const std::vector<float> some = product_of(first, rows);
      const auto from = all.begin() + first * shape.columns;
      ASSERT_TRUE(std::equal(some.begin(), some.end(), from)) << rows << " rows from " << first;
    }
}

TEST_P(GemmTest, AddsIntoItself) {
  const GemmShape shape{20, 50, 20};
  const Operand a(shape.rows, shape.depth, false, 1), b(shape.depth, shape.columns, false, 2);
  Operand y(shape.rows, shape.columns, false, 3);
  const Operand before = y;
  Bf16Gemm gemm = gemm_of(shape, a, b);
  gemm.addend = gemm.y = y.data.data();
  gemm.addend_stride = gemm.y_stride = y.stride;
  run(*kernel_, gemm);
  for (int64_t i = 0; i < shape.rows; ++i)
    for (int64_t j = 0; j < shape.columns; ++j) {
      const double value = before.at(i, j) + exact(a, b, i, j, shape.depth);
      EXPECT_NEAR(y.at(i, j), value, sum_error(shape.depth) + rounding_error(value));
    }
}

TEST_P(GemmTest, NotANumberStaysInItsRowAndColumn) {
  const GemmShape shape{40, 70, 40};
  Operand a(shape.rows, shape.depth, false, 1);
  const Operand b(shape.depth, shape.columns, false, 2);
  a.data[static_cast<size_t>(33 * a.stride + 69)] = to_bf16(std::numeric_limits<float>::infinity());
  a.data[static_cast<size_t>(3 * a.stride + 1)] = to_bf16(std::nanf(""));
  std::vector<uint16_t> y(static_cast<size_t>(shape.rows * shape.columns));
  Bf16Gemm gemm = gemm_of(shape, a, b);
  gemm.y = y.data();
  gemm.y_stride = shape.columns;
  run(*kernel_, gemm);
  for (int64_t i = 0; i < shape.rows; ++i)
    for (int64_t j = 0; j < shape.columns; ++j) {
      const float value = from_bf16(y[static_cast<size_t>(i * shape.columns + j)]);
      EXPECT_EQ(std::isnan(value), i == 3) << i << ", " << j;
      EXPECT_EQ(std::isinf(value), i == 33) << i << ", " << j;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GemmTest, ::testing::Values("avx512_bf16", "amx"));

}  // namespace
}  // namespace cohort::compute::cpu
