// Opening the folder of a language model to serve it, against reading its bytes: the shape of
// Qwen2.5-0.5B in bf16, random weights, a file of 1 GB in the page cache. Prints one JSON line.
//   folder_bench [threads] [repeats] [folder to write to]
// `read` is memcpy of the mapped file into fresh memory on one thread; `share` is its time over the
// time of FolderEngine::open, which checks and packs every weight. Both alternate.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/compute/generate/folder_engine.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "runtime/model/hf_config.hpp"

namespace {

using namespace cohort;
using namespace cohort::compute;
namespace fs = std::filesystem;

void write_folder(const fs::path& folder) {
  const ModelConfig model{model::find_model("Qwen2.5-0.5B").value(), tensor::Dtype::bf16};
  const ParameterLayout layout = layout_of(model);
  std::vector<uint16_t> weights(static_cast<size_t>(layout.total_elements));
  Rng rng(1);
  for (uint16_t& weight : weights)
    weight = to_bf16(static_cast<float>(rng.next_u64() >> 40) * 0x1p-24F * 0.1F - 0.05F);
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec& spec : layout.specs) {
    const auto part = std::span(weights).subspan(static_cast<size_t>(spec.offset),
                                                 static_cast<size_t>(spec.count));
    tensors.push_back({spec.name, "BF16", spec.shape, std::as_bytes(part)});
  }
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << model::write_hf_config({.shape = model});
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}}).value();
}

double read_seconds(const fs::path& path) {
  const double begin = now_seconds();
  const SafetensorsFile file = SafetensorsFile::open(path).value();
  size_t size = 0;
  for (const NamedTensor& tensor : file.tensors()) size += tensor.bytes.size();
  const auto fresh = allocate_host(size).value();
  std::byte* to = fresh.get();
  for (const NamedTensor& tensor : file.tensors()) {
    std::memcpy(to, tensor.bytes.data(), tensor.bytes.size());
    to += tensor.bytes.size();
  }
  return now_seconds() - begin;
}

double open_seconds(const fs::path& folder, uint32_t threads) {
  const double begin = now_seconds();
  FolderEngine::Options options;
  options.folder = folder;
  options.dtype = tensor::Dtype::bf16;
  options.context_max = 64;
  options.threads = threads;
  const auto engine = FolderEngine::open(options).value();
  const double seconds = now_seconds() - begin;
  if (engine->vocab_size() == 0) std::abort();
  return seconds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<uint32_t>(std::max(1, argc > 1 ? std::atoi(argv[1]) : 2));
  const int repeats = std::max(1, argc > 2 ? std::atoi(argv[2]) : 7);
  const fs::path parent = argc > 3 ? fs::path(argv[3]) : fs::temp_directory_path();
  const fs::path folder = parent / "folder_bench_model";
  write_folder(folder);
  std::vector<double> read, open, shares;
  for (int i = 0; i <= repeats; ++i) {
    const double base = read_seconds(folder / "model.safetensors");
    const double ours = open_seconds(folder, threads);
    if (i == 0) continue;  // warm-up
    read.push_back(base);
    open.push_back(ours);
    shares.push_back(base / ours);
  }
  const auto bytes = static_cast<double>(fs::file_size(folder / "model.safetensors"));
  fs::remove_all(folder);
  fmt::print(
      "{{\"bench\":\"folder\",\"bytes\":{:.0f},\"threads\":{},\"repeats\":{},"
      "\"read_gb_per_s\":{:.2f},\"open_gb_per_s\":{:.2f},\"share\":{:.2f}}}\n",
      bytes, threads, repeats, bytes / median(read) * 1e-9, bytes / median(open) * 1e-9,
      median(shares));
  return 0;
}
