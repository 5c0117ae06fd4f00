"""The one style sheet of a page: light, dark, print, wide and narrow. Contrast of text is 4.5 and more on its ground."""

from __future__ import annotations

from typing import Final

from suffice.report.svg import CHART_STYLE

INK: Final = {
    "text": "#1c1f23",
    "ground": "#ffffff",
    "soft": "#f4f5f7",
    "line": "#8a9099",
    "dim": "#4d535b",
    "link": "#0b5fa5",
}
INK_DARK: Final = {
    "text": "#e8eaed", "ground": "#16181b", "soft": "#22262b", "line": "#777e87", "dim": "#b9bec5", "link": "#7ab8f5",
}  # fmt: skip


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


STYLE: Final = f""":root{{color-scheme:light dark;{_variables(INK)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(INK_DARK)}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0;background:var(--ground);color:var(--text);font:1rem/1.55 system-ui,"Noto Sans","Noto Sans CJK SC","PingFang SC","Microsoft YaHei",sans-serif;overflow-wrap:anywhere}}
main{{max-width:68rem;margin:0 auto;padding:1.25rem 1rem 3rem}}
h1{{font-size:1.2rem;line-height:1.35;margin:0 0 .5rem;color:var(--dim);font-weight:600}}
h2{{font-size:1.35rem;line-height:1.3;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}}
h3{{font-size:1rem;line-height:1.4;margin:0 0 .25rem}}
section:first-of-type h2{{margin-top:0;border-top:0;padding-top:0}}
p{{margin:.5rem 0}}
.lead{{font-size:1.5rem;line-height:1.35;font-weight:600;margin:.25rem 0 1rem}}
.note{{color:var(--dim);font-size:.925rem}}
.mark{{border-left:.3rem solid currentColor;padding-left:.6rem;font-weight:600}}
.next{{border-left:.3rem solid var(--link);padding-left:.6rem}}
a{{color:var(--link)}}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{{outline:3px solid var(--link);outline-offset:2px}}
nav ul{{columns:2 14rem;margin:.25rem 0;padding-left:1.25rem}}
code,pre{{font-family:ui-monospace,"Cascadia Mono","DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.9em}}
pre{{background:var(--soft);border:1px solid var(--line);border-radius:.3rem;padding:.7rem .8rem;white-space:pre-wrap}}
.scroll{{overflow-x:auto;margin:.75rem 0}}
table{{border-collapse:collapse;min-width:100%;font-size:.925rem;font-variant-numeric:tabular-nums}}
caption{{text-align:left;font-weight:600;padding:.25rem 0}}
th,td{{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line);min-width:3.5rem;max-width:26rem;overflow-wrap:break-word}}
td:last-child{{overflow-wrap:anywhere}}
td.short{{white-space:nowrap}}
thead th{{border-bottom-width:2px}}
tbody th{{font-weight:600;min-width:7rem}}
.figures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.75rem;list-style:none;margin:.75rem 0;padding:0}}
.figures li{{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.75rem}}
.figures .value{{font-size:1.35rem;font-weight:700;margin:0 0 .25rem}}
.figures dl{{margin:0;font-size:.9rem}}
.figures dt{{color:var(--dim)}}
.figures dd{{margin:0 0 .3rem}}
figure{{margin:1rem 0}}
figcaption{{color:var(--dim);font-size:.925rem}}
figure svg{{display:block;color:var(--text)}}
details{{margin:.5rem 0}}
summary{{cursor:pointer;color:var(--dim)}}
footer{{margin-top:3rem;border-top:1px solid var(--line);color:var(--dim);font-size:.9rem}}
{CHART_STYLE}
@media screen and (min-width:60em){{
.wide{{font-size:.86rem}}
.wide td.short:not(.word){{white-space:normal}}
.wide th,.wide td{{padding-right:.5rem;min-width:3rem}}
.wide tbody th{{overflow-wrap:anywhere}}
}}
@media screen and (max-width:44em){{.lead{{font-size:1.25rem}}h2{{font-size:1.2rem}}}}
@page{{margin:16mm 14mm}}
@media print{{
html{{font-size:9.5pt}}
main{{max-width:none;padding:0}}
h2{{margin-top:1.4rem}}
nav,summary{{display:none}}
h2,h3,caption,thead,p:has(+pre),p:has(+figure),p:has(+.scroll){{break-after:avoid}}
tbody tr:first-child{{break-before:avoid}}
figure,tr,li,pre,.lead{{break-inside:avoid}}
figure svg{{max-height:78mm}}
.figures{{grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.5rem}}
.figures li{{padding:.5rem}}
.figures+p{{break-before:avoid}}
thead{{display:table-header-group}}
.scroll{{overflow:visible}}
table{{font-size:8pt}}
td.short{{white-space:normal}}
th,td{{min-width:0;padding:.2rem .4rem .2rem 0}}
tbody th{{min-width:0}}
a{{color:inherit}}
}}
"""
