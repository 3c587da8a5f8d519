#include "runtime/observe/histogram_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {

std::string histogram_part(std::string_view title, const Histogram& numbers, double mean) {
  constexpr double k_width = 340, k_height = 150;
  const std::vector<uint64_t>& counts = numbers.counts;
  if (std::accumulate(counts.begin(), counts.end(), uint64_t{0}) < 2) return "";
  const std::string range =
      fmt::format("mean {}, {} … {}", format_number(mean), format_number(numbers.least),
                  format_number(numbers.greatest));
  const bool is_one = counts.size() == 1;
  // One value is a bar in the middle, however far apart the doubles beside it are.
  const double half = std::max(0.5, std::abs(numbers.least) * 1e-9);
  const double low = numbers.least - (is_one ? half : 0);
  const double high = numbers.greatest + (is_one ? half : 0);
  const auto most = static_cast<double>(*std::ranges::max_element(counts));
  Plot plot{44, 10, k_width - 52, k_height - 34, {}, {}};
  plot.x = make_axis(low, high, 4, AxisFormat::number, false);
  plot.y = make_axis(0, most, 3, AxisFormat::count, true);
  std::string out = fmt::format("<figure class=\"card\"><figcaption><h3>{}</h3></figcaption>",
                                escape_html(title));
  out += open_svg(k_width, k_height, title, "histogram") + draw_axes(plot, "");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double from = is_one ? numbers.least - half / 25 : numbers.edge(i);
    const double to = is_one ? numbers.least + half / 25 : numbers.edge(i + 1);
    const std::string label = is_one
                                  ? format_number(numbers.least)
                                  : fmt::format("{} … {}", format_number(from), format_number(to));
    const double top = plot.py(static_cast<double>(counts[i]));
    out +=
        fmt::format(R"(<rect class="fill s0" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">)"
                    R"(<title>{}: {}</title></rect>)",
                    plot.px(from), top, std::max(1.0, plot.px(to) - plot.px(from) - 1),
                    plot.bottom() - top, label, counts[i]);
  }
  return out + fmt::format("</svg><p class=\"note\">{}</p></figure>\n", range);
}

std::string histogram_part(std::string_view title, const std::vector<double>& values) {
  std::vector<double> finite;
  for (double value : values)
    if (std::isfinite(value)) finite.push_back(value);
  double mean = 0;
  for (double value : finite) mean += value / static_cast<double>(finite.size());
  return histogram_part(title, histogram_of(std::span<const double>(finite)), mean);
}

}  // namespace cohort::observe
