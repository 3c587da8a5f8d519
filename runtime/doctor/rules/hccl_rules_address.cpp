/// Device addresses: H10.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>

#include "runtime/doctor/rules/hccl_rule_parts.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::doctor {

std::optional<uint32_t> parse_ipv4(std::string_view text) {
  uint32_t value = 0;
  for (int part = 0; part < 4; ++part) {
    if (part > 0) {
      if (text.empty() || text.front() != '.') return std::nullopt;
      text.remove_prefix(1);
    }
    uint32_t byte = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), byte);
    if (error != std::errc() || byte > 255 || end - text.data() > 3) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    value = value << 8 | byte;
  }
  return text.empty() ? std::optional(value) : std::nullopt;
}

namespace {

std::string text_of(uint32_t ip) {
  return fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

struct Address {
  CardView card;
  uint32_t ip = 0, mask = 0;
  uint32_t network() const { return ip & mask; }
  uint32_t device() const { return card.card->device_id; }
  std::string text() const {
    return fmt::format("{} (subnet {}/{})", text_of(ip), text_of(network()), std::popcount(mask));
  }
  std::string place() const { return fmt::format("card {} of {}", device(), card.host->name); }
};

class AddressCheck {
 public:
  AddressCheck(Findings& found, const Cluster& cluster)
      : found_(found), severity_(network_severity(cluster)) {
    for (const CardView& x : cards_in_use(cluster)) read(x);
  }
  bool is_complete() const { return is_complete_; }
  size_t count() const { return addresses_.size(); }

  /// Every address once.
  void check_unique() {
    std::map<uint32_t, const Address*> holder;
    for (const Address& x : addresses_) {
      auto [first, is_new] = holder.emplace(x.ip, &x);
      if (!is_new)
        add(x, fmt::format("{}, as {}", text_of(x.ip), first->second->place()),
            "an address of its own", x);
    }
  }

  /// A2 and A3: one subnet for all.
  void check_one_subnet() {
    std::vector<const Address*> all;
    for (const Address& x : addresses_) all.push_back(&x);
    check_together(all, "all NPUs in one subnet");
  }

  /// Training series: i and i+4 together, the same index together over hosts (so one subnet for
  /// each position of a ring); the positions apart.
  void check_training() {
    constexpr uint32_t k_ring = 4;
    for (uint32_t position = 0; position < k_ring; ++position) {
      std::vector<const Address*> members;
      for (const Address& x : addresses_)
        if (x.device() % k_ring == position) members.push_back(&x);
      check_together(members, fmt::format("cards {} and {} of all servers in one subnet", position,
                                          position + k_ring));
    }
    std::map<std::pair<const Host*, uint32_t>, const Address*> at;
    for (const Address& x : addresses_) at[{x.card.host, x.device()}] = &x;
    for (const Address& x : addresses_)
      for (uint32_t other = x.device() / k_ring * k_ring; other < x.device(); ++other) {
        auto found = at.find({x.card.host, other});
        if (found == at.end() || !is_same(x, *found->second)) continue;
        add(x, fmt::format("{}, the subnet of card {}", x.text(), other),
            "cards 0-3 pairwise in different subnets, and so 4-7", std::nullopt);
      }
  }

 private:
  void read(const CardView& x) {
    const Card& card = *x.card;
    if (!card.is_ip_read) {
      is_complete_ = false;
      return;
    }
    Address address{x, 0, 0};
    // 0 is no address of a card and no mask (and GCC 12 cannot follow an optional here).
    uint32_t ip = card.ip ? parse_ipv4(*card.ip).value_or(0) : 0;
    uint32_t mask = card.netmask ? parse_ipv4(*card.netmask).value_or(0) : 0;
    bool is_mask = mask != 0 && (~mask & (~mask + 1)) == 0;  // ones, then zeros
    if (ip == 0 || !is_mask) {
      add(address,
          fmt::format("{} netmask {}", card.ip.value_or("no address"),
                      card.netmask.value_or("none")),
          "an address and its netmask", std::nullopt);
      return;
    }
    address.ip = ip;
    address.mask = mask;
    addresses_.push_back(address);
  }

  static bool is_same(const Address& x, const Address& y) {
    return x.mask == y.mask && x.network() == y.network();
  }

  /// The subnet of most members is right; the others are named.
  void check_together(const std::vector<const Address*>& members, const std::string& rule) {
    std::map<std::pair<uint32_t, uint32_t>, size_t> sizes;
    for (const Address* x : members) ++sizes[{x->network(), x->mask}];
    if (sizes.size() < 2) return;
    auto size = [&](const Address* x) { return sizes[{x->network(), x->mask}]; };
    const Address* right = members.front();
    for (const Address* x : members)
      if (size(x) > size(right)) right = x;
    for (const Address* x : members)
      if (!is_same(*x, *right))
        add(*x, x->text(), fmt::format("{}: {} has {}", rule, right->place(), right->text()),
            *right);
  }

  /// Returns the lowest address of the subnet above those in use, nothing when it is full.
  std::optional<uint32_t> free_address(const Address& like) const {
    uint32_t highest = like.network();
    for (const Address& x : addresses_)
      if ((x.ip & like.mask) == like.network()) highest = std::max(highest, x.ip);
    uint32_t broadcast = like.network() | ~like.mask;
    return highest + 1 < broadcast ? std::optional(highest + 1) : std::nullopt;
  }

  void add(const Address& x, std::string seen, std::string wanted, std::optional<Address> like) {
    std::optional<uint32_t> free = like ? free_address(*like) : std::nullopt;
    found_.add(
        severity_, "device ip", std::move(seen), std::move(wanted),
        free ? fmt::format("hccn_tool -i {} -ip -s address {} netmask {}", x.device(),
                           text_of(*free), text_of(like->mask))
             : fmt::format("hccn_tool -i {} -ip -s address <address> netmask <mask>", x.device()),
        x.card.host->name, x.device());
  }

  Findings& found_;
  Severity severity_;
  std::vector<Address> addresses_;
  bool is_complete_ = true;
};

}  // namespace

std::vector<Finding> check_h10(const Cluster& cluster) {
  Findings found("H10");
  if (!has_npu(cluster)) return std::move(found).or_skipped("device ip", "no NPU");
  AddressCheck check(found, cluster);
  check.check_unique();
  if (cluster.series == Series::training)
    check.check_training();
  else if (cluster.series != Series::unknown)
    check.check_one_subnet();
  if (!check.is_complete() || cards_in_use(cluster).empty())
    return std::move(found).or_skipped("device ip", "hccn_tool -ip was not read on every card",
                                       "for i in $(seq 0 7); do hccn_tool -i $i -ip -g; done");
  if (cluster.series == Series::unknown)
    return std::move(found).or_skipped("device ip",
                                       "unique; the series that sets the subnets is "
                                       "not known");
  return std::move(found).or_ok(
      "device ip", fmt::format("{} addresses, unique, in the right subnets", check.count()));
}

}  // namespace cohort::doctor
