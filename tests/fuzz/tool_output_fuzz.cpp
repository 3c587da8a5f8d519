// Any text as the answer of each tool and the content of each file that the doctor reads.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/doctor/probes/system_text.hpp"
#include "runtime/doctor/probes/tool_output.hpp"
#include "runtime/doctor/rules/environment_rules.hpp"
#include "runtime/doctor/rules/hccl_products.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace {

using namespace cohort;
using namespace cohort::doctor;

void check_field(const std::string& text) {
  COHORT_CHECK(text.size() <= k_max_text, "a field is bounded");
  COHORT_CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
               "a field is printable");
}

template <class T>
void check_error(const Expected<T>& x) {
  if (x) return;
  COHORT_CHECK(x.error().code == Errc::corrupt, "unreadable text is corrupt");
  COHORT_CHECK(!x.error().detail.empty() && x.error().detail.size() < 400, "errors are short");
  check_field(x.error().detail.substr(0, 200));
}

void read_npu_smi(std::string_view text) {
  auto info = parse_npu_smi_info(text);
  check_error(info);
  if (info) {
    COHORT_CHECK(info->cards.size() <= k_max_cards, "cards are bounded");
    check_field(info->version);
    for (const NpuSmiCard& card : info->cards) {
      for (const std::string& field : {card.name, card.health, card.bus_id}) check_field(field);
      COHORT_CHECK(card.chip_id < info->dies_per_npu, "dies are counted");
      (void)doctor::series_of(card.name, card.hbm_mib, info->dies_per_npu);
    }
  }
  auto board = parse_npu_board(text);
  check_error(board);
  if (board)
    for (const std::string& field : {board->software, board->firmware, board->compatibility})
      check_field(field);
}

void read_hccn(std::string_view text) {
  auto ip = parse_hccn_ip(text);
  check_error(ip);
  if (ip) {
    check_field(ip->address);
    (void)doctor::parse_ipv4(ip->address);
  }
  for (const auto& flag :
       {parse_hccn_link(text), parse_hccn_tls(text), parse_hccn_lldp(text), parse_firewall(text)})
    check_error(flag);
  auto health = parse_hccn_net_health(text);
  check_error(health);
  COHORT_CHECK(!health || (*health >= 0 && *health <= 9), "health is a code");
  auto address = parse_hccn_netdetect(text);
  check_error(address);
  if (address) check_field(*address);
  auto loss = parse_hccn_ping(text);
  check_error(loss);
  COHORT_CHECK(!loss || (*loss >= 0 && *loss <= 100), "loss is a percentage");
  auto gpus = parse_nvidia_smi(text);
  check_error(gpus);
  COHORT_CHECK(!gpus || gpus->size() <= k_max_cards, "cards are bounded");
}

void read_system(std::string_view text) {
  auto ranges = parse_port_ranges(text);
  check_error(ranges);
  if (ranges)
    for (const auto& range : *ranges) COHORT_CHECK(range.first <= range.last, "a range");
  auto ports = parse_proc_net_tcp(text);
  COHORT_CHECK(std::is_sorted(ports.begin(), ports.end()), "ports are sorted");
  if (auto range = parse_port_range(text)) COHORT_CHECK(range->first <= range->last, "a range");
  if (auto version = parse_version_info(text, "version")) check_field(*version);
  check_field(parse_loaded_blas(text));
  (void)parse_number(text);
  (void)parse_mem_available(text);
  auto devices = doctor::parse_visible_devices(text);
  COHORT_CHECK(!devices || devices->size() <= 1024, "devices are bounded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  read_npu_smi(text);
  read_hccn(text);
  read_system(text);
  return 0;
}
