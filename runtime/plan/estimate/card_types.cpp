#include "runtime/plan/estimate/card_types.hpp"

#include <array>
#include <string>

#include "runtime/base/text.hpp"

namespace cohort::plan {
namespace {

constexpr uint64_t k_gib = uint64_t{1} << 30;

// Reserve. NPU: the seed's NPU_MEMORY_FRACTION 0.96 leaves 4 % to CANN (context, HCCL buffers of
// HCCL_BUFFSIZE = 200 MB, twice per communicator). CUDA: a context of about half a GiB and NCCL's
// channel buffers of about one.
constexpr uint64_t npu_reserve(uint64_t capacity) { return capacity / 25; }
constexpr uint64_t k_cuda_reserve = k_gib + k_gib / 2;

// Capacities as the drivers report them: npu-smi 32768 / 65536 MB; nvidia-smi 40960, 81920 (A100),
// 81559 (H100 SXM) and 143771 MiB (H200).
constexpr uint64_t k_mib = uint64_t{1} << 20;

// Links, one direction. 910A: HCCS 30 GB/s, 100 Gb/s RoCE per card (Atlas 800 9000 data sheet). A2:
// seven HCCS links, 392 GB/s both directions together (Atlas 800T A2 data sheet), 200 Gb/s RoCE.
// A3: a die has 196 GB/s on the UB plane, inside the whole SuperPoD (CloudMatrix384, arXiv
// 2506.12708, section 3), so "network" is the same plane. H100, H200: NVLink 4, 900 GB/s both
// directions; one 400 Gb/s adapter per card. A100: NVLink 3, 600 GB/s; one 200 Gb/s adapter. Host:
// PCIe 4 x16 (910A, A2, A100) about 25 GB/s, PCIe 5 x16 about 50 GB/s with pinned memory.
constexpr std::array k_types = {
    CardType{"910A", "Atlas training series, Ascend 910", Series::training, 32 * k_gib,
             npu_reserve(32 * k_gib), 8, 30, 12.5, 25},
    CardType{"A2", "Atlas A2, Ascend 910B", Series::a2, 64 * k_gib, npu_reserve(64 * k_gib), 8, 196,
             25, 25},
    CardType{"A3", "Atlas A3, one die of an Ascend 910C", Series::a3, 64 * k_gib,
             npu_reserve(64 * k_gib), 16, 196, 196, 50},
    CardType{"H100", "NVIDIA H100 SXM 80 GB", Series::unknown, 81559 * k_mib, k_cuda_reserve, 8,
             450, 50, 50},
    CardType{"H200", "NVIDIA H200 SXM 141 GB", Series::unknown, 143771 * k_mib, k_cuda_reserve, 8,
             450, 50, 50},
    CardType{"A100-40", "NVIDIA A100 SXM 40 GB", Series::unknown, 40960 * k_mib, k_cuda_reserve, 8,
             300, 25, 25},
    CardType{"A100-80", "NVIDIA A100 SXM 80 GB", Series::unknown, 81920 * k_mib, k_cuda_reserve, 8,
             300, 25, 25},
    // The cpu platform: bytes come from the config (cards.memory_bytes); copies inside one process.
    CardType{"cpu", "a slot with a byte budget", Series::unknown, 0, 0, 0, 0, 0, 0},
};

struct OtherName {
  std::string_view other, name;
};
constexpr std::array k_other_names = {
    OtherName{"910", "910A"},          OtherName{"ascend910", "910A"},
    OtherName{"ascend910a", "910A"},   OtherName{"910b", "A2"},
    OtherName{"ascend910b", "A2"},     OtherName{"910c", "A3"},
    OtherName{"ascend910c", "A3"},     OtherName{"a100", "A100-80"},
    OtherName{"a100-40gb", "A100-40"}, OtherName{"a100-80gb", "A100-80"},
    OtherName{"h100-80gb", "H100"},    OtherName{"h200-141gb", "H200"},
};

std::string lowered(std::string_view text) {
  std::string out = to_lower(text);
  std::erase_if(out, [](char c) { return c == ' ' || c == '_'; });
  return out;
}

}  // namespace

Expected<CardType> find_card_type(std::string_view name) {
  std::string wanted = lowered(name);
  // npu-smi prints the bin too: 910B3 is a 910B.
  if (auto at = wanted.find("910b"); at != std::string::npos && wanted.size() == at + 5)
    wanted.pop_back();
  for (const OtherName& entry : k_other_names)
    if (wanted == entry.other) wanted = lowered(entry.name);
  std::string known;
  for (const CardType& type : k_types) {
    if (lowered(type.name) == wanted) return type;
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  return Error{Errc::not_found, "card type '" + std::string(name) + "' is not known; there are " +
                                    known + " (a data sheet's bytes and links make a new row)"};
}

std::string_view to_string(Series x) { return name_in({"unknown", "training", "A2", "A3"}, x); }

}  // namespace cohort::plan
