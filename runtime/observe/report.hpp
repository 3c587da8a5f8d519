#pragma once
/// report.html: one self-contained page about a run (inline CSS, SVG and a little script; nothing
/// is fetched, it works from a USB stick and in print, light and dark). Pure but for the one file
/// that write_report replaces. OBS-4: every text that comes from outside (observations, answers,
/// config, names) is HTML-escaped. OBS-5: the page names no address outside itself.
#include <filesystem>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/observe/report_data.hpp"

namespace cohort::observe {

/// Returns the page. Same data, same bytes.
std::string render_report(const ReportData& data);
/// Writes the page to a temporary file beside `path` and renames it, so that a reader never sees
/// half of it. Returns Errc::io naming the path.
Expected<void> write_report(const std::filesystem::path& path, const ReportData& data);

}  // namespace cohort::observe
