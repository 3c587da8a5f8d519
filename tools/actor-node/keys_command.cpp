#include "tools/actor-node/keys_command.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "runtime/control/credentials.hpp"

namespace cohort {

CLI::App* add_keys_command(CLI::App& app, KeysCommand& command) {
  CLI::App* keys = app.add_subcommand("keys", "credentials of a cluster: make them, look at them");
  keys->require_subcommand(1);
  auto add = [&](const char* name, const char* what) {
    CLI::App* verb = keys->add_subcommand(name, what);
    verb->add_option("folder", command.folder, "DIR, the same on every host")->required();
    verb->callback([&command, name] { command.verb = name; });
    return verb;
  };
  add("new", "make a new cluster's keys: mutual TLS and CURVE")
      ->add_option("--days", command.valid_days, "how long they are valid")
      ->capture_default_str()
      ->check(CLI::Range(1, 36500));
  add("show", "check DIR as a node would, and print fingerprints and expiry");
  keys->footer(
      "A host with DIR belongs to the cluster: copy it over ssh, keep it 0700. A leaked DIR is "
      "replaced by a new one on every host.\n"
      "Exit codes: 0 done, 1 DIR cannot be made or does not hold.");
  return keys;
}

Expected<std::string> keys_text(const KeysCommand& command) {
  if (command.verb == "new")
    COHORT_TRY(control::make_credentials(command.folder, {.valid_days = command.valid_days}));
  COHORT_ASSIGN(const control::Credentials credentials, control::load_credentials(command.folder));
  COHORT_ASSIGN(const control::CredentialsInfo info, control::describe_credentials(credentials));
  return fmt::format(
      "keys:        {}\nauthority:   sha256 {}\ncertificate: sha256 {}\ncurve:       {}\n"
      "expires:     {} ({} days left)\n{}",
      command.folder, info.authority_sha256, info.certificate_sha256, info.curve_public,
      info.expires, info.days_left,
      command.verb == "new"
          ? fmt::format("Copy the folder to every host of the cluster and say --keys {}\n",
                        command.folder)
          : std::string());
}

int keys_command(const KeysCommand& command) {
  auto text = keys_text(command);
  if (!text) {
    std::fprintf(stderr, "error: %s\n", text.error().detail.c_str());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace cohort
