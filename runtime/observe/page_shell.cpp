/// Style and script of the dashboard's pages on top of report.html's.
#include "runtime/observe/page_shell.hpp"

#include <fmt/format.h>

#include "runtime/observe/html.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

constexpr std::string_view k_style = R"css(
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 14px}
header h1{flex:1 1 auto}
.state{font-weight:600;color:var(--good)}
.state.bad,.banner{color:var(--bad)}
.state.warn{color:var(--warn)}
.banner{font-weight:600;border:1px solid var(--bad);border-radius:8px;padding:8px 12px;
margin-bottom:16px}
.banner.calm{color:var(--soft);border-color:var(--line)}
.where{color:var(--soft);font-size:13px;overflow-wrap:anywhere}
progress,meter{width:100%;height:10px;accent-color:var(--c0)}
meter{min-width:90px;max-width:220px}
#run .numbers{margin-top:12px;gap:12px;
grid-template-columns:repeat(auto-fit,minmax(118px,1fr))}
.headlines{margin:0 0 16px}
footer{margin-top:40px;color:var(--soft);font-size:13px}
td.words{min-width:14em;overflow-wrap:anywhere}
.links{margin:0 0 18px;font-size:14px}
.links a[aria-current]{color:var(--ink);font-weight:600;text-decoration:none}
.crumbs{color:var(--soft);font-size:14px;margin:0 0 6px;overflow-wrap:anywhere}
form.where{display:flex;flex-wrap:wrap;gap:8px;margin:10px 0 14px}
form.where label{display:flex;gap:4px;align-items:center}
form.where input:not([type=checkbox]){flex:1 1 260px;min-width:0;
font:13px/1.5 ui-monospace,Menlo,"DejaVu Sans Mono",monospace;
background:var(--card);color:var(--ink);border:1px solid var(--axis);border-radius:6px;
padding:5px 9px}
form.where button{font:inherit;background:var(--tint);color:var(--ink);
border:1px solid var(--axis);border-radius:6px;padding:4px 12px;cursor:pointer}
a:focus-visible,button:focus-visible,input:focus-visible{outline:2px solid var(--c0);
outline-offset:2px}
.pairs{grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr))}
tr:focus-within{background:var(--tint)}
pre.one{font-size:20px;padding:10px 14px}
a.token{color:inherit;text-decoration:none}
a.token:hover{outline:1px solid var(--c0)}
.context{font:14px/1.9 ui-monospace,Menlo,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.context .sampled{background:var(--tint)}
.context [aria-current]{outline:2px solid var(--c0);border-radius:3px}
td.text{font-family:ui-monospace,Menlo,"DejaVu Sans Mono",monospace;white-space:pre}
.log{max-height:60vh;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere}
.diff td{overflow-wrap:anywhere}
.diff td:first-child{overflow-wrap:break-word;min-width:11em}
.flow .box{fill:var(--card);stroke:var(--axis);stroke-width:1.5}
.flow .box.busy{stroke:var(--good);stroke-width:3}
.flow .box.lost{stroke:var(--bad);stroke-width:3}
.flow path{fill:none;stroke:var(--axis);stroke-width:1.5}
.flow .tip{fill:var(--axis);stroke:none}
kbd{font:11px ui-monospace,Menlo,monospace;
border:1px solid var(--axis);border-radius:4px;padding:0 4px}
)css";

// Fetches the parts and replaces those that have changed. A legend's switches and open details stay
// as they were.
constexpr std::string_view k_script = R"js(
(function () {
  'use strict';
  var drawn = {}, banner = document.getElementById('banner'), last = Date.now(), timer = 0;
  function keep(from, to) {
    var figures = to.querySelectorAll('figure');
    from.querySelectorAll('figure').forEach(function (figure, i) {
      if (!figures[i]) return;
      figure.querySelectorAll('button.key[aria-pressed=false]').forEach(function (button) {
        var k = '[data-k="' + button.dataset.k + '"]', now = figures[i].querySelector('button' + k);
        if (!now) return;
        now.setAttribute('aria-pressed', false);
        figures[i].querySelectorAll('svg ' + k).forEach(
          function (e) { e.classList.add('is-off'); });
      });
    });
  }
  function take(text) {
    // Its style has a nonce of its own, which this page's policy would refuse.
    text = text.replace(/<style[^>]*>[^<]*<\/style>/, '');
    var page = new DOMParser().parseFromString(text, 'text/html');
    if (document.querySelector('[data-waiting]') && !page.querySelector('[data-waiting]')) {
      document.querySelector('main').replaceWith(document.adoptNode(page.querySelector('main')));
      document.title = page.title;
      banner = document.getElementById('banner');
      return;
    }
    page.querySelectorAll('section').forEach(function (part) {
      var old = document.getElementById(part.id);
      if (!old || drawn[part.id] === part.outerHTML) return;
      drawn[part.id] = part.outerHTML;
      keep(old, part);
      var at = document.activeElement, focus = old.contains(at) && at.getAttribute('href');
      old.replaceWith(document.adoptNode(part));
      if (focus) part.querySelectorAll('a').forEach(function (a) {
        if (a.getAttribute('href') === focus) a.focus();
      });
    });
    var state = document.querySelector('[data-title]');
    if (state) document.title = state.dataset.title;
  }
  // A page that changes says how often it is to be looked at again; the others are done.
  function source() {
    var page = document.querySelector('[data-refresh]');
    if (page) return {url: location.pathname + location.search, ms: Number(page.dataset.refresh)};
    var rows = document.querySelector('[data-rows]');
    return document.getElementById('run')
      ? {url: 'live?rows=' + (rows ? rows.dataset.rows : ''), ms: 1000} : null;
  }
  function next(ms) { clearTimeout(timer); timer = setTimeout(look, ms); }
  function look() {
    var from = source();
    if (document.hidden || !from) return;
    fetch(from.url, {cache: 'no-store'})
      .then(function (reply) {
        if (!reply.ok) throw new Error('status ' + reply.status);
        return reply.text();
      })
      .then(function (text) {
        take(text);
        banner.hidden = true;
        last = Date.now();
        var again = source();
        if (again) next(again.ms);
      })
      .catch(function (error) {
        var over = document.querySelector('[data-over]');
        banner.textContent = over ? 'The run is over: this is how it ended.'
          : 'No answer for ' + Math.round((Date.now() - last) / 1000) +
            ' s (' + error.message + '): the run has ended, or its host is away.';
        banner.classList.toggle('calm', !!over);
        banner.hidden = false;
        next(over ? 30000 : 3000);
      });
  }
  document.addEventListener('visibilitychange', function () { if (!document.hidden) next(0); });
  // j, k: rows; u, n, p: up, next, previous; /: the filter.
  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    var rel = {u: 'up', n: 'next', p: 'prev'}[event.key];
    var link = rel && document.querySelector('a[rel=' + rel + ']');
    if (link) link.click();
    if (event.key === '/') {
      var filter = document.querySelector('input[name=where]');
      if (filter) { filter.focus(); event.preventDefault(); }
    }
    if (event.key !== 'j' && event.key !== 'k') return;
    var rows = Array.from(document.querySelectorAll('td a'));
    var at = rows.indexOf(document.activeElement);
    var to = rows[event.key === 'j' ? at + 1 : Math.max(at, 1) - 1];
    if (to) to.focus();
  });
  document.addEventListener('submit', function (event) {
    var form = event.target;
    if (!form.dataset.stop) return;
    event.preventDefault();
    fetch('stop', {method: 'POST', headers: {'X-Cohort-Action': form.elements.token.value}})
      .then(function (reply) { return reply.text(); })
      .then(function (text) { form.querySelector('output').textContent = text.trim(); },
            function () { form.querySelector('output').textContent = 'No answer.'; });
  });
  var first = source();
  if (first) next(Math.min(first.ms, 1000));
})();
)js";

constexpr std::pair<std::string_view, std::string_view> k_links[] = {
    {"./", "Overview"},   {"steps", "Trajectories"}, {"timeline", "Timeline"},
    {"flow", "Dataflow"}, {"logs", "Logs"},          {"compare", "Compare"}};

std::string links_part(std::string_view active) {
  std::string out = "<nav class=\"links\">";
  for (const auto& [path, name] : k_links)
    out += fmt::format("<a href=\"{}\"{}>{}</a>", path,
                       path == active ? " aria-current=\"page\"" : "", name);
  return out + "</nav>\n";
}

}  // namespace

std::string refresh_mark(int ms) { return fmt::format("<i data-refresh=\"{}\"></i>", ms); }

std::string part(std::string_view id, std::string_view title, const std::string& body) {
  if (!body.empty() && title.empty())
    return fmt::format("<section id=\"{}\">{}</section>\n", id, body);
  return body.empty() ? fmt::format("<section id=\"{}\" hidden></section>\n", id)
                      : section(id, title, body);
}

std::string page_shell(const ShellOptions& options, const std::string& body) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>{}</title>\n", escape_html(options.title));
  out += fmt::format("<style nonce=\"{}\">{}{}</style>\n</head>\n<body>\n<main>\n", options.nonce,
                     k_report_style, k_style);
  if (options.has_run) out += links_part(options.active);
  out += "<p id=\"banner\" class=\"banner\" hidden></p>\n" + body;
  out +=
      "<footer>For programs: <a href=\"metrics\">metrics</a> (Prometheus), "
      "<a href=\"status.json\">status.json</a>. Keys: <kbd>j</kbd> <kbd>k</kbd> rows, "
      "<kbd>u</kbd> up, <kbd>n</kbd> <kbd>p</kbd> next and previous, <kbd>/</kbd> filter."
      "</footer>\n</main>\n<div id=\"tip\" hidden></div>\n";
  out += fmt::format("<script nonce=\"{}\">{}{}</script>\n</body>\n</html>\n", options.nonce,
                     k_report_script, k_script);
  return out;
}

HttpReply page_reply(std::string page, std::string_view nonce) {
  HttpReply reply{200, "text/html; charset=utf-8", std::move(page)};
  reply.headers.emplace_back(
      "Content-Security-Policy",
      fmt::format(
          "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; "
          "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
          nonce));
  return reply;
}

}  // namespace cohort::observe
