#include "runtime/text/local_time.hpp"

#include <cstdio>

namespace cohort::text {

Expected<std::tm> local_time_of(const std::string& text) {
  std::tm time{};
  int used = 0;
  char between = ' ';
  const char* rest = text.c_str();
  const auto bad = [&] {
    return Error{Errc::invalid_argument,
                 "'" + text + "' is no time: write YYYY-MM-DD or \"YYYY-MM-DD HH:MM:SS\""};
  };
  if (std::sscanf(rest, "%4d-%2d-%2d%n", &time.tm_year, &time.tm_mon, &time.tm_mday, &used) != 3)
    return bad();
  rest += used;
  if (*rest != '\0') {
    used = 0;
    if (std::sscanf(rest, "%c%2d:%2d%n", &between, &time.tm_hour, &time.tm_min, &used) != 3 ||
        used == 0 || (between != ' ' && between != 'T'))
      return bad();
    rest += used;
    if (*rest == ':') {
      used = 0;
      if (std::sscanf(rest, ":%2d%n", &time.tm_sec, &used) != 1) return bad();
      rest += used;
    }
    if (*rest != '\0') return bad();
  }
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  const std::tm given = time;
  if (timegm(&time) == -1 || time.tm_mday != given.tm_mday || time.tm_mon != given.tm_mon ||
      time.tm_hour != given.tm_hour || time.tm_min != given.tm_min)
    return bad();
  return time;
}

}  // namespace cohort::text
