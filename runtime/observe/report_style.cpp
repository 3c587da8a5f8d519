/// CSS and script of report.html. Colours: Okabe and Ito's palette (told apart with any colour
/// vision), lighter in the dark scheme; series also differ by the shape of their marks or by
/// dashes.
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {

const std::string_view k_report_style = R"css(
:root{--bg:#f6f7f9;--card:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;--axis:#9aa4b1;
--good:#00795a;--bad:#b3400a;--warn:#8a6100;--tint:#eef1f5;
--c0:#0072b2;--c1:#d98c00;--c2:#009e73;--c3:#c6499a;--c4:#d55e00;--c5:#56a9dd;--c6:#7d7d7d;
--c7:#8c6d31}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e6eaf0;--soft:#9aa6b5;
--line:#2c3540;--axis:#66717f;--good:#3ecfa0;--bad:#ff8b57;--warn:#f0b340;--tint:#232b35;
--c0:#4ea6e6;--c1:#f0b340;--c2:#2fc49b;--c3:#e893c6;--c4:#f07a3a;--c5:#9bd4f8;--c6:#a8a8a8;
--c7:#c2a25a}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
h1{margin:0 0 4px;font-size:28px;line-height:1.2;overflow-wrap:anywhere}
h2{margin:40px 0 12px;font-size:20px}
h3{margin:0;font-size:15px}
h4{margin:0 0 6px;font-size:12px;color:var(--soft);font-weight:600}
p{margin:0 0 8px}
.status{color:var(--good);font-weight:600}
.status.bad{color:var(--bad)}
.summary{max-width:70ch}
.note{color:var(--soft);font-size:13px;margin:8px 0 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:8px 20px;
margin:16px 0 0}
.facts dt{color:var(--soft);font-size:12px}
.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:20px 0 0;font-size:14px}
a{color:var(--c0)}
.card,.headline{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:14px 16px;margin:0 0 16px}
.headlines{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));
gap:16px;margin-top:24px}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:16px;
margin-top:16px}
.headline{margin:0}
.headline h3{color:var(--soft);font-weight:600;font-size:13px}
.big{font-size:28px;line-height:1.25;font-weight:650;margin:2px 0 4px;
font-variant-numeric:tabular-nums}
.big span{color:var(--soft);font-weight:400}
.big small{font-size:14px;color:var(--soft);font-weight:500;white-space:nowrap}
.small .big{font-size:20px;margin:0}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,310px),1fr));
gap:16px}
.pairs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}
.multiples .card,.pairs .card{margin:0}
figcaption{margin-bottom:4px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}
.dumbbell{max-width:420px}
.narrow{display:none}
.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}
.s4{--c:var(--c4)}.s5{--c:var(--c5)}.s6{--c:var(--c6)}.s7{--c:var(--c7)}
.grid{stroke:var(--line);stroke-width:1}
.base{stroke:var(--axis);stroke-width:1}
.series polyline{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;
stroke-linecap:round}
.series.s1 polyline{stroke-dasharray:7 3}
.series.s2 polyline{stroke-dasharray:2 4}
.series.faint polyline{stroke-width:1.3;stroke-dasharray:none;opacity:.75}
.mark{fill:var(--c);stroke:var(--card);stroke-width:1}
.interval{stroke:var(--c);stroke-width:1.5;opacity:.45}
.reference line{stroke:var(--soft);stroke-width:1;stroke-dasharray:5 4;opacity:.8}
.reference text{fill:var(--soft);paint-order:stroke;stroke:var(--card);stroke-width:3px}
.cursor{stroke:var(--soft);stroke-width:1;opacity:0}
.cursor.is-on{opacity:1}
.track{stroke:var(--line);stroke-width:6;stroke-linecap:round}
.tick{stroke:var(--soft);stroke-width:2}
.change{stroke:var(--c);stroke-width:4}
.before{fill:var(--card);stroke:var(--c);stroke-width:2.5}
.after{fill:var(--c)}
.bar rect,.fill{fill:var(--c)}
.fill{opacity:.88}
.bar text{fill:#fff;font-weight:600}
.bar.s1 text,.bar.s5 text{fill:#14181d}
@media (prefers-color-scheme:dark){.bar text{fill:#10141a}}
.move.in{fill:var(--ink)}
.move.out{fill:var(--axis)}
.steps line{stroke:var(--axis);stroke-dasharray:2 3}
.name{font-weight:600}
svg .name{fill:var(--ink)}
.budget line{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:6 3}
svg .budget text{fill:var(--bad);paint-order:stroke;stroke:var(--card);stroke-width:3px}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:2px 0 6px;font-size:13px}
.key{display:inline-flex;align-items:center;gap:6px;border:0;background:none;padding:2px 0;
font:inherit;color:inherit}
button.key{cursor:pointer}
button.key[aria-pressed=false]{opacity:.4;text-decoration:line-through}
.key i{width:12px;height:12px;border-radius:3px;background:var(--c,transparent)}
.key.move i{width:5px;border-radius:1px}
.key.move.in i{background:var(--ink)}
.key.move.out i{background:var(--axis)}
.key:not(.move):not(.s0):not(.s1):not(.s2):not(.s3):not(.s4):not(.s5):not(.s6):not(.s7) i{
display:none}
.is-off{display:none}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;width:100%;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
.num{text-align:right;white-space:nowrap}
details{margin:0 0 16px}
summary{cursor:pointer;font-size:14px}
details .scroll{margin-top:8px}
pre{margin:8px 0 0;padding:12px;background:var(--tint);border-radius:8px;overflow-x:auto;
font:12px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
.chips{display:flex;flex-wrap:wrap;gap:6px;margin:6px 0 10px}
.chip{font-size:12px;background:var(--tint);border-radius:20px;padding:1px 9px;white-space:nowrap}
.good{color:var(--good)}
.bad{color:var(--bad)}
.warn{color:var(--warn)}
.turns{display:flex;flex-wrap:wrap;gap:10px;list-style:none;margin:0;padding:0}
.turn{border:1px solid var(--line);border-radius:8px;padding:8px 10px;min-width:124px;
max-width:100%}
.grid-map{margin:0 0 8px;padding:0;background:none;line-height:1;white-space:pre}
.turn b,.key-line b{display:inline-block;width:20px;height:20px;line-height:20px;margin:0 2px 2px 0;
text-align:center;border-radius:4px;
font:600 12px/20px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
b.player{background:var(--c0);color:#fff}
b.ice{background:var(--tint);color:var(--soft)}
b.hole{background:#3b4450;color:#fff}
b.goal{background:var(--c2);color:#fff}
b.fallen{background:var(--c4);color:#fff}
b.reached{background:var(--c2);color:#fff;outline:2px solid var(--c0);outline-offset:-2px}
@media (prefers-color-scheme:dark){b.hole{background:#000}b.goal,b.reached,b.fallen,b.player{
color:#10141a}}
.seen{max-height:180px;margin:0 0 8px;white-space:pre-wrap}
.prompt{margin:0 0 8px}
.prompt summary{font-size:12px;color:var(--soft)}
.prompt pre{max-height:220px;max-width:420px;white-space:pre-wrap;overflow:auto}
.answer{margin:0 0 2px;font:13px/1.6 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
white-space:pre-wrap;overflow-wrap:anywhere}
.token{border-radius:3px;padding:1px 2px;white-space:pre-wrap}
.t0{background:none;box-shadow:inset 0 0 0 1px var(--line)}
.t1{background:rgba(217,140,0,.16)}
.t2{background:rgba(217,140,0,.34)}
.t3{background:rgba(213,94,0,.42)}
.t4{background:rgba(213,94,0,.68)}
.logp{margin:0 0 2px;font-size:12px;color:var(--soft)}
.flags{display:flex;flex-wrap:wrap;gap:0 10px;margin:0;font-size:12px}
.key-line{margin-bottom:12px}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--card);color:var(--ink);
border:1px solid var(--axis);
border-radius:6px;padding:5px 9px;font-size:12px;line-height:1.45;
box-shadow:0 2px 10px rgba(0,0,0,.18);white-space:pre;
font-variant-numeric:tabular-nums}
@media (max-width:720px){main{padding:18px 12px 40px}.wide{display:none}.narrow{display:block}
.card,.headline{padding:12px}h1{font-size:24px}.big{font-size:24px}.facts{
grid-template-columns:1fr 1fr}}
@media print{body{background:#fff}.card,.headline,.turn{break-inside:avoid}nav,#tip{display:none}}
)css";

const std::string_view k_report_script = R"js(
(function () {
  'use strict';
  var tip = document.getElementById('tip');
  function count(v) {
    var a = Math.abs(v);
    if (a >= 1e9) return (v / 1e9).toFixed(1) + 'G';
    if (a >= 1e6) return (v / 1e6).toFixed(1) + 'M';
    if (a >= 1e3) return (v / 1e3).toFixed(1) + 'k';
    return v.toFixed(a < 10 ? 2 : 0);
  }
  function text(v, format) {
    if (format === 'percent') return (v * 100).toFixed(1) + '%';
    if (format === 'count') return count(v);
    if (format === 'seconds') return v.toPrecision(3) + ' s';
    if (v !== 0 && Math.abs(v) < 1e-3) return v.toExponential(2);
    return Number(v.toPrecision(3)).toString();
  }
  function numbers(s) { return s.trim().split(/[ ,]+/).map(Number); }
  function nearest(group, x) {
    var best = null;
    group.querySelectorAll('polyline').forEach(function (line) {
      var p = numbers(line.getAttribute('points'));
      for (var i = 0; i + 1 < p.length; i += 2)
        if (!best || Math.abs(p[i] - x) < Math.abs(best[0] - x)) best = [p[i], p[i + 1]];
    });
    return best;
  }
  function hide(svg) {
    tip.hidden = true;
    if (svg) svg.querySelector('.cursor').classList.remove('is-on');
  }
  function show(svg, event) {
    var d = svg.querySelector('desc').dataset;
    var box = numbers(d.box), dx = numbers(d.x), dy = numbers(d.y);
    var cursor = svg.querySelector('.cursor'), width = svg.viewBox.baseVal.width;
    var area = svg.getBoundingClientRect(), x = (event.clientX - area.left) * width / area.width;
    var rows = [], at = null;
    var groups = Array.from(svg.querySelectorAll('.series:not(.is-off)'));
    groups.forEach(function (group) {
      var p = nearest(group, x);
      if (p && (at === null || Math.abs(p[0] - x) < Math.abs(at - x))) at = p[0];
    });
    if (at === null) return hide(svg);
    groups.forEach(function (group) {
      var p = nearest(group, at);
      if (p && Math.abs(p[0] - at) < 0.6)
        rows.push(group.dataset.name + '  ' +
          text(dy[0] + (box[1] + box[3] - p[1]) / box[3] * (dy[1] - dy[0]), d.format));
    });
    cursor.setAttribute('x1', at); cursor.setAttribute('x2', at); cursor.classList.add('is-on');
    var step = Math.round(dx[0] + (at - box[0]) / box[2] * (dx[1] - dx[0]));
    tip.textContent = 'step ' + step + '\n' + rows.join('\n');
    tip.hidden = false;
    var left = event.clientX + 14;
    if (left + tip.offsetWidth > innerWidth - 8) left = event.clientX - tip.offsetWidth - 14;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
  }
  var under = null;  // the chart under the pointer; charts come and go where the page is live
  document.addEventListener('pointermove', function (event) {
    var svg = event.target.closest ? event.target.closest('svg.line') : null;
    if (under && under !== svg) hide(under);
    under = svg;
    if (svg) show(svg, event);
  });
  document.addEventListener('pointerleave', function () { hide(under); under = null; });
  document.addEventListener('click', function (event) {
    var button = event.target.closest ? event.target.closest('button.key') : null;
    if (!button) return;
    var on = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', on);
    button.closest('figure').querySelectorAll('svg [data-k="' + button.dataset.k + '"]').forEach(
      function (e) { e.classList.toggle('is-off', !on); });
  });
})();
)js";

}  // namespace cohort::observe
