"""Style and script of the page, as they are sent. The style is the report's, with what a form needs beside it; the script computes nothing."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from suffice.report.page.style import STYLE

_FORM_STYLE: Final = """\
:root{--wrong:#b3261e;--button:#0b5fa5;--on-button:#ffffff}
@media screen and (prefers-color-scheme:dark){:root{--wrong:#ff8a80;--button:#7ab8f5;--on-button:#10141a}}
body{margin:0 auto;max-width:92rem;padding:1rem}
body>header h1{font-size:1.5rem;color:var(--text)}
main{max-width:none;padding:0;display:grid;gap:1.5rem;grid-template-columns:minmax(0,1fr)}
@media screen and (min-width:60rem){main{grid-template-columns:24rem minmax(0,1fr)}main.plain{grid-template-columns:minmax(0,46rem)}}
.hint{color:var(--dim);font-size:.9rem}
#asked{align-self:start;background:var(--soft);border:1px solid var(--line);border-radius:.5rem;padding:.75rem 1rem}
#asked details{border-bottom:1px solid var(--line);padding:0 0 .75rem;margin:0 0 .5rem}
#asked summary{color:var(--text);font-weight:600;padding:.35rem 0}
.fields{display:grid;gap:.4rem .75rem;grid-template-columns:minmax(0,1fr) minmax(0,11rem);align-items:center}
input,select,button{font:inherit;color:inherit}
input:not([type="hidden"]),select{width:100%;min-height:2.5rem;padding:.25rem .5rem;background:var(--ground);border:1px solid var(--line);border-radius:.25rem}
input[aria-invalid="true"],select[aria-invalid="true"]{border:2px solid var(--wrong)}
button{min-height:2.75rem;padding:.25rem 1rem;margin:.25rem .5rem .25rem 0;background:var(--button);color:var(--on-button);border:0;border-radius:.25rem;cursor:pointer}
input:focus-visible,select:focus-visible,button:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.refused{border-left:.3rem solid var(--wrong);padding:.5rem 1rem;background:var(--soft)}
#result[aria-busy="true"]{opacity:.6}
#result td:last-child{min-width:18rem}
#result section:first-of-type h2{margin-top:0;border-top:0;padding-top:0}
@media print{#asked,#keep,body>header nav{display:none}main{display:block}}
"""
SCRIPT: Final = """\
"use strict";
// Sends the form when a field changes and shows the answer in its place. Nothing is computed here; without this script the button does the same.
(() => {
  const form = document.getElementById("asked");
  const result = document.getElementById("result");
  const PAUSE_MS = 150; // after the last key
  let timer = 0;
  let busy = false;
  let again = false;

  async function show(query, more) {
    const answer = await fetch("/result?" + query + more, { credentials: "same-origin", cache: "no-store" });
    if (answer.status !== 200) {
      throw new Error(answer.statusText);
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!again) {
      result.replaceChildren(...page.body.childNodes);
    }
    return !again && result.querySelector("[data-pending]") !== null;
  }

  async function follow() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    result.setAttribute("aria-busy", "true");
    try {
      do {
        again = false;
        const query = new URLSearchParams(new FormData(form)).toString();
        for (let more = await show(query, ""); more; more = await show(query, "&wait=1"));
        if (!again) {
          history.replaceState(null, "", "/?" + query);
        }
      } while (again);
    } catch {
      form.submit(); // the browser says what is wrong
    }
    busy = false;
    result.removeAttribute("aria-busy");
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(follow, PAUSE_MS);
  });
  if (result.querySelector("[data-pending]") !== null) {
    follow();
  }
})();
"""
STYLE_NAME: Final = "style.css"
SCRIPT_NAME: Final = "page.js"
ASSETS: Final = MappingProxyType(
    {STYLE_NAME: ("text/css", STYLE + _FORM_STYLE), SCRIPT_NAME: ("text/javascript", SCRIPT)}
)
"""Name to media type and content."""
