// The fuzz targets without libFuzzer: each file of a corpus, then random mutations of them for some
// seconds. fuzz_x CORPUS_FOLDER [SECONDS]; COHORT_SEED repeats a run. An input that aborts or
// crashes is left in fuzz_failure.bin; give that file's folder as the corpus to see it again.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t k_max_input_bytes = 4096;
constexpr long k_max_resident_kib = 2L << 20;  // sanitizers keep freed memory

std::string current;  // for on_crash()

void on_crash(int signal_number) {
  int file = ::open("fuzz_failure.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && ::write(file, current.data(), current.size()) >= 0) ::close(file);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void run(std::string input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

std::vector<std::string> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    inputs.push_back(text.str());
  }
  return inputs;
}

std::string piece_of(const std::string& text, cohort::Rng& rng) {
  size_t from = rng.below(text.size() + 1);
  return text.substr(from, rng.below(24));
}

std::string mutated(const std::vector<std::string>& corpus, cohort::Rng& rng) {
  std::string text = corpus[rng.below(corpus.size())];
  for (uint64_t i = rng.below(6) + 1; i > 0; --i) {
    size_t at = rng.below(text.size() + 1);
    switch (rng.below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(rng.below(256));
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(rng.below(128)));
        break;
      case 2:
        text.erase(at, rng.below(16));
        break;
      case 3:
        text.insert(at, piece_of(corpus[rng.below(corpus.size())], rng));
        break;
      case 4:  // the same piece many times
        for (std::string piece = piece_of(text, rng); rng.below(8) > 0;) text.insert(at, piece);
        break;
      default:
        text.resize(at);
    }
  }
  text.resize(std::min(text.size(), k_max_input_bytes));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [SECONDS]\n", argv[0]);
    return 2;
  }
  for (int signal_number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) std::signal(signal_number, on_crash);
  std::vector<std::string> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no files\n", argv[1]);
    return 2;
  }
  for (const std::string& input : corpus) run(input);
  const char* seed_text = std::getenv("COHORT_SEED");
  uint64_t seed = seed_text == nullptr ? 20261121 : std::strtoull(seed_text, nullptr, 10);
  cohort::Rng rng(seed);
  double seconds = argc > 2 ? std::strtod(argv[2], nullptr) : 5.0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++count) run(mutated(corpus, rng));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%zu corpus files, %zu mutations, seed %llu, at most %ld MiB resident\n",
              corpus.size(), count, static_cast<unsigned long long>(seed), usage.ru_maxrss / 1024);
  return usage.ru_maxrss < k_max_resident_kib ? 0 : 1;
}
