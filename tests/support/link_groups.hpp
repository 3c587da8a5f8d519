#pragma once
/// Groups over links for tests and benches: tcp on loopback, plain or with CURVE. Header only.
#include <zmq.h>

#include <array>
#include <memory>
#include <string>

#include "actors/node/link_collectives.hpp"

namespace cohort::tests {

/// The pair of keys that all ranks of a test share.
inline transport::CurveKeys curve_keys() {
  std::array<char, 41> open{}, secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0) return {};
  return {open.data(), secret.data(), open.data()};
}

/// One context per call: not before a fork.
inline actors::LinkGroupOptions link_group_options(const transport::CurveKeys& keys = {},
                                                   int peer_timeout_ms = 10000) {
  actors::LinkGroupOptions options;
  options.context = std::make_shared<transport::Context>();
  options.link = [keys, peer_timeout_ms](const std::string&, const std::string& name) {
    transport::LinkOptions link;
    link.endpoint = "tcp://127.0.0.1:*";
    link.run_id = "test";
    link.name = name;
    link.curve = keys;
    link.peer_timeout_ms = peer_timeout_ms;
    return link;
  };
  return options;
}

}  // namespace cohort::tests
