#include "runtime/plugin/child/plugin_version.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/read_file.hpp"
#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/code/code_scripts.hpp"

namespace cohort::plugin {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_kinds[] = {"reward", "environment", "tool"};  // by PluginKind
constexpr size_t k_max_source_bytes = size_t{8} << 20;
constexpr size_t k_max_library_bytes = size_t{1} << 30;
constexpr size_t k_frame_slack_bytes = size_t{64} << 10;  // for what is no output: a reason
/// The worker comes through the pipe: lists of processes show this line and the plugin's path.
constexpr const char* k_boot =
    "import os, sys; size, text = int(sys.argv[1]), b''\n"
    "while len(text) < size: text += os.read(0, size - len(text)) or os._exit(0)\n"
    "exec(compile(text, '<cohort>', 'exec'))";

struct Named {
  std::string path;  // absolute
  std::string name;  // function or class; may be empty
};

Expected<Named> named(std::string_view plugin) {
  size_t colon = plugin.rfind(':');
  Named found{.path = std::string(plugin.substr(0, colon)), .name = {}};
  if (colon != std::string_view::npos) found.name = plugin.substr(colon + 1);
  std::error_code error;
  fs::path path = fs::canonical(found.path, error);
  if (error || !fs::is_regular_file(path, error))
    return Error{Errc::not_found, fmt::format("{}: no such plugin file (looked from {})",
                                              found.path, fs::current_path(error).string())};
  found.path = path.string();
  return found;
}

Expected<nlohmann::json> options_of(const std::string& config) {
  auto options = nlohmann::json::parse(config.empty() ? "{}" : config, nullptr, false);
  if (!options.is_object())
    return Error{Errc::config, fmt::format("plugin args are a JSON object, not '{:.80}'", config)};
  return options;
}

/// The schema of a tool as the config gives it; null: the tool has its own.
Expected<nlohmann::ordered_json> schema_of(const std::string& schema) {
  if (schema.empty()) return nlohmann::ordered_json();
  auto json = nlohmann::ordered_json::parse(schema, nullptr, false);
  if (!json.is_object() || !json.contains("function"))
    return Error{Errc::config,
                 fmt::format("a tool's schema is {{\"type\": \"function\", \"function\": {{…}}}}, "
                             "not '{:.80}'",
                             schema)};
  return json;
}

/// Folders that hold more than a plugin and its helpers: /, /tmp and the like, somebody's home.
bool is_shared(const fs::path& folder) {
  std::error_code error;
  const char* home = std::getenv("HOME");
  bool is_sticky =
      (fs::status(folder, error).permissions() & fs::perms::sticky_bit) != fs::perms::none;
  return folder == "/" || is_sticky || (home != nullptr && fs::equivalent(folder, home, error));
}

SandboxOptions sandbox_of(const PluginSpec& file) {
  SandboxOptions options;
  options.mode = file.mode;
  options.limits.memory_bytes = file.memory_bytes;
  options.readable = file.readable;
  options.has_network = file.has_network;
  options.has_loopback = file.is_dialogue;
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8",
                         // one order of sets in every child, and no pool of threads per child
                         "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"};
  return options;
}

/// The plugin's own folder: what it imports lies beside it.
std::string readable_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return is_shared(folder) ? path : folder.string();
}

void add_once(std::vector<std::string>& folders, const fs::path& folder) {
  std::string text = folder.string();
  bool is_system = text.empty() || text == "/" || text == "/usr" || text.starts_with("/usr/");
  if (!is_system && std::find(folders.begin(), folders.end(), text) == folders.end())
    folders.push_back(std::move(text));
}

Expected<fs::path> interpreter(const PluginSpec& file) {
  fs::path python = file.python.empty() ? "/usr/bin/python3" : file.python;
  std::error_code error;
  if (::access(python.c_str(), X_OK) == 0) return fs::absolute(python, error).lexically_normal();
  return Error{Errc::unsupported,
               fmt::format("{}: no Python interpreter there; install python3 or name one with "
                           "`python: /path/to/python3`",
                           python.string())};
}

/// An interpreter that runs the worker; `shown` is what lists of processes show of the plugin.
Expected<LaunchSpec> python_launch(const PluginSpec& file, const std::string& shown) {
  COHORT_ASSIGN(fs::path python, interpreter(file));
  LaunchSpec launch;
  launch.sandbox = sandbox_of(file);
  // A venv's interpreter is a link: its own packages, and the installation it stands on.
  std::error_code error;
  add_once(launch.sandbox.readable, python.parent_path().parent_path());
  add_once(launch.sandbox.readable, fs::canonical(python, error).parent_path().parent_path());
  launch.preamble = worker_script();
  launch.sandbox.argv = {python.string(),
                         "-X",
                         "utf8",
                         "-B",
                         "-c",
                         k_boot,
                         std::to_string(worker_script().size()),
                         shown};
  return launch;
}

std::string load_text(const nlohmann::ordered_json& load) {
  return load.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Expected<PluginVersion> python_version(const PluginSpec& file, const Named& at) {
  COHORT_ASSIGN(nlohmann::json args, options_of(file.config));
  COHORT_ASSIGN(std::string source, read_file(at.path, k_max_source_bytes));
  PluginVersion version{.fingerprint = source, .launch = {}};
  COHORT_ASSIGN(version.launch, python_launch(file, at.path));
  version.launch.sandbox.readable.push_back(readable_of(at.path));
  nlohmann::ordered_json load{{"kind", k_kinds[static_cast<size_t>(file.kind)]},
                              {"path", at.path},
                              {"name", at.name},
                              {"source", source},
                              {"args", std::move(args)},
                              {"is_dialogue", file.is_dialogue},
                              {"timeout_s", file.timeout_s}};
  if (file.kind == PluginKind::tool) {
    COHORT_ASSIGN(load["schema"], schema_of(file.schema));
    load["output_bytes_max"] = file.output_bytes_max;
    version.launch.frame_bytes_max = file.output_bytes_max + k_frame_slack_bytes;
  }
  version.launch.load_json = load_text(load);
  return version;
}

/// The worker has the code: there is no file that could change.
Expected<PluginVersion> shipped_version(const PluginSpec& file) {
  COHORT_ASSIGN(nlohmann::json args, options_of(file.config));
  PluginVersion version{.fingerprint = file.config, .launch = {}};
  COHORT_ASSIGN(version.launch, python_launch(file, file.plugin));
  version.launch.load_json = load_text({{"kind", file.plugin},
                                        {"path", file.plugin},
                                        {"args", std::move(args)},
                                        {"has_network", file.has_network},
                                        {"is_dialogue", file.is_dialogue},
                                        {"timeout_s", file.timeout_s}});
  return version;
}

Expected<std::string> plugin_host() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"cohort-plugin-host", "../bin/cohort-plugin-host"}) {
    fs::path path = fs::canonical(folder / place, error);
    if (!error) return path.string();
  }
  return Error{Errc::unsupported,
               fmt::format("cohort-plugin-host is not in {}: C++ plugins run in it; install it "
                           "beside this program",
                           folder.string())};
}

Expected<PluginVersion> native_version(const PluginSpec& file, const Named& at) {
  COHORT_TRY(options_of(file.config));
  COHORT_ASSIGN(std::string content, read_file(at.path, k_max_library_bytes));
  COHORT_ASSIGN(std::string host, plugin_host());
  PluginVersion version{.fingerprint = std::move(content), .launch = {}};
  SandboxOptions& sandbox = version.launch.sandbox;
  sandbox = sandbox_of(file);
  sandbox.readable.push_back(readable_of(at.path));
  add_once(sandbox.readable, fs::path(host).parent_path());
  sandbox.argv = {host};
  if (file.kind == PluginKind::tool)
    version.launch.frame_bytes_max = file.output_bytes_max + k_frame_slack_bytes;
  nlohmann::json load{{"kind", k_kinds[static_cast<size_t>(file.kind)]},
                      {"output_bytes_max", file.output_bytes_max},
                      {"path", at.path},
                      {"config", file.config.empty() ? "{}" : file.config}};
  version.launch.load_json = load.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return version;
}

}  // namespace

bool is_python_plugin(std::string_view plugin) {
  return plugin.ends_with(".py") || plugin.find(".py:") != std::string_view::npos;
}

bool is_native_plugin(std::string_view plugin) { return plugin.ends_with(".so"); }

Expected<PluginVersion> read_version(const PluginSpec& file) {
  const auto read = [&file]() -> Expected<PluginVersion> {
    if (is_shipped(file.plugin)) return shipped_version(file);
    COHORT_ASSIGN(Named at, named(file.plugin));
    return is_native_plugin(file.plugin) ? native_version(file, at) : python_version(file, at);
  };
  auto version = read();
  if (!version) return version.error().with_context(file.plugin);
  version->launch.plugin = file.plugin;
  return version;
}

}  // namespace cohort::plugin
