#include "runtime/base/main_frame.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

namespace cohort {

int run_main(const char* prefix, const std::function<int()>& body) {
  int code = 2;
  try {
    code = body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s%s\n", prefix, e.what());
    return 2;
  }
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written || code != 0) return code;
  std::fprintf(stderr, "%sstdout cannot be written: %s\n", prefix,
               errno != 0 ? std::strerror(errno) : "an earlier write failed");
  return 2;
}

}  // namespace cohort
