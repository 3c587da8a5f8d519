#include "runtime/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace cohort::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  constexpr spdlog::level::level_enum k_levels[] = {spdlog::level::debug, spdlog::level::info,
                                                    spdlog::level::warn, spdlog::level::err};
  return k_levels[static_cast<size_t>(level)];
}

}  // namespace

Expected<void> open(const std::string& path, Level console_level) try {
  auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false);
  auto console = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  console->set_level(to_spdlog(console_level));
  console->set_pattern("%l: %v");
  auto logger = std::make_shared<spdlog::logger>("cohort", spdlog::sinks_init_list{file, console});
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(logger);
  return {};
} catch (const spdlog::spdlog_ex& e) {
  return Error{Errc::io, std::string("log file: ") + e.what()};
}

void write(Level level, std::string_view text) { spdlog::log(to_spdlog(level), "{}", text); }

void flush() { spdlog::default_logger()->flush(); }

}  // namespace cohort::log
