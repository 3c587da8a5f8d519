#pragma once
/// Readers of files under /proc, /etc and /usr/local/Ascend, and the lines and words that they and
/// tool_output.cpp read. Pure functions of text: any bytes, no throw, bounded results. A view
/// points into the text given and must not outlive it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/text.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

/// Takes the next line off `text`, without its end of line. False when nothing is left.
bool next_line(std::string_view& text, std::string_view& line);
/// Takes the next blank-separated word off `text`, empty when there is none.
std::string_view next_word(std::string_view& text);
/// Whether `text` begins with `start`, ASCII letters compared without case.
bool starts_with_no_case(std::string_view text, std::string_view start);
/// Returns what stands behind the first `field` in any line ("link status: UP" and "link status:"
/// give "UP"), trimmed, or nothing. Letter case of the field does not matter.
std::optional<std::string_view> field_of(std::string_view text, std::string_view field);
/// Reads leading digits as a number below `limit`; nothing without a digit or above it.
std::optional<uint64_t> leading_number(std::string_view text, uint64_t limit = UINT64_MAX);
/// Returns a copy of at most `size` bytes in which bytes outside printable ASCII are '?'.
std::string printable(std::string_view text, size_t size);

/// Reads one whole number, e.g. /proc/sys/net/core/somaxconn. Returns nothing on any other text.
std::optional<uint64_t> parse_number(std::string_view text);

/// Reads /proc/sys/net/ipv4/ip_local_reserved_ports: "60000-60015,8080"; empty text: none.
/// Returns Errc::corrupt on a part that is no port or range.
Expected<std::vector<PortRange>> parse_port_ranges(std::string_view text);

/// Reads /proc/sys/net/ipv4/ip_local_port_range: "32768\t60999".
std::optional<PortRange> parse_port_range(std::string_view text);

/// Reads /proc/net/tcp or tcp6: the local ports of sockets that listen or are connected, sorted,
/// each once (TIME_WAIT apart, which does not hinder a listener with SO_REUSEADDR).
std::vector<uint16_t> parse_proc_net_tcp(std::string_view text);

/// Reads /proc/meminfo: MemAvailable [bytes].
std::optional<uint64_t> parse_mem_available(std::string_view text);

/// Reads a "key=value" file such as /usr/local/Ascend/driver/version.info or
/// ascend_toolkit_install.info: the value of `key` (any letter case), or nothing.
std::optional<std::string> parse_version_info(std::string_view text, std::string_view key);

/// Reads /proc/self/maps: path of the first mapped file that is a BLAS (openblas, mkl, blis or
/// libblas), empty when none is.
std::string parse_loaded_blas(std::string_view text);

}  // namespace cohort::doctor
