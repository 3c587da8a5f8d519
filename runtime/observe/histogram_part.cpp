#include "runtime/observe/histogram_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {

std::string histogram_part(std::string_view title, const std::vector<double>& values) {
  constexpr size_t k_bins = 24;
  constexpr double k_width = 340, k_height = 150;
  std::vector<double> finite;
  for (double value : values)
    if (std::isfinite(value)) finite.push_back(value);
  if (finite.size() < 2) return "";
  double low = *std::ranges::min_element(finite), high = *std::ranges::max_element(finite);
  double mean = 0;
  for (double value : finite) mean += value / static_cast<double>(finite.size());
  const std::string range =
      fmt::format("mean {}, {} … {}", format_number(mean), format_number(low), format_number(high));
  if (high <= low) {  // one value: a bar in the middle
    low -= 0.5;
    high += 0.5;
  }
  std::vector<size_t> bins(k_bins);
  for (double value : finite)
    ++bins[std::min(k_bins - 1,
                    static_cast<size_t>((value - low) / (high - low) * double{k_bins}))];
  const auto most = static_cast<double>(*std::ranges::max_element(bins));
  Plot plot{44, 10, k_width - 52, k_height - 34, {}, {}};
  plot.x = make_axis(low, high, 4, AxisFormat::number, false);
  plot.y = make_axis(0, most, 3, AxisFormat::count, true);
  std::string out = fmt::format("<figure class=\"card\"><figcaption><h3>{}</h3></figcaption>",
                                escape_html(title));
  out += open_svg(k_width, k_height, title, "histogram") + draw_axes(plot, "");
  for (size_t i = 0; i < k_bins; ++i) {
    if (bins[i] == 0) continue;
    const double from = low + (high - low) * static_cast<double>(i) / double{k_bins};
    const double to = low + (high - low) * static_cast<double>(i + 1) / double{k_bins};
    const double top = plot.py(static_cast<double>(bins[i]));
    out +=
        fmt::format(R"(<rect class="fill s0" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">)"
                    R"(<title>{} … {}: {}</title></rect>)",
                    plot.px(from), top, std::max(1.0, plot.px(to) - plot.px(from) - 1),
                    plot.bottom() - top, format_number(from), format_number(to), bins[i]);
  }
  return out + fmt::format("</svg><p class=\"note\">{}</p></figure>\n", range);
}

}  // namespace cohort::observe
