"""The page as HTML, for Jinja with autoescape on: every text that is put in is escaped, and only charts and our own style are not."""

from __future__ import annotations

from typing import Final

TEMPLATE: Final = """\
<!doctype html>
<!-- suffice report -->
{% macro text(item) -%}
{% set href = item.href | web_address -%}
{% if item.lang and item.lang != language %}<span lang="{{ item.lang }}">{% endif -%}
{% if href %}<a href="{{ href }}" rel="noreferrer">{{ item.text | line }}</a>
{%- elif item.is_code and item.text %}<code>{{ item.text | line }}</code>
{%- else %}{% for part in item.text | parts %}{% if part.is_code %}<code>{{ part.text }}</code>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif -%}
{% if item.lang and item.lang != language %}</span>{% endif -%}
{% endmacro -%}
{% macro table(block) -%}
<div class="scroll" role="group" tabindex="0" aria-label="{{ block.caption.text | line }}">
<table{% if block.header | length > 7 %} class="wide"{% endif %}>
<caption>{{ text(block.caption) }}</caption>
<thead><tr>{% for cell in block.header %}<th scope="col">{{ text(cell) }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in block.rows %}<tr>{% for cell in row %}{% if loop.first %}<th scope="row">{{ text(cell) }}</th>{% else %}<td{% if cell.text | length < 12 %} class="short word"{% elif cell.text | length < 24 %} class="short"{% endif %}>{{ text(cell) }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
{%- endmacro -%}
{% macro figures(block) -%}
<p><strong>{{ text(block.caption) }}</strong></p>
<ul class="figures">
{% for item in block.items_ %}<li><h3>{{ text(item.label) }}</h3><p class="value">{{ text(item.value) }}</p><dl>
{%- for name, told in item.facts %}<dt>{{ text(name) }}</dt><dd>{{ text(told) }}</dd>{% endfor %}</dl></li>
{% endfor %}</ul>
{%- endmacro -%}
<html lang="{{ html_language }}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="suffice">
<title>{{ page.title.text | line }}</title>
<style>{{ style }}</style>
</head>
<body>
<main>
<h1>{{ text(page.title) }}</h1>
{% for section in page.sections %}<section id="{{ section.key }}" aria-labelledby="{{ section.key }}-title">
<h2 id="{{ section.key }}-title">{{ text(section.title) }}</h2>
{% for block in section.blocks %}
{%- if block.kind == "sentence" %}<p class="{{ block.role.value }}">{% if block.label %}<strong>{{ block.label | line }}</strong> {% endif %}{{ text(block.text) }}</p>
{% elif block.kind == "table" %}{{ table(block.block) }}
{% elif block.kind == "figures" %}{{ figures(block) }}
{% elif block.kind == "picture" %}<figure>{{ block.svg }}<figcaption><strong>{{ block.title | line }}{{ page.marks.stop }}</strong> {{ block.description | line }}</figcaption></figure>
{% if block.table %}<details open><summary>{{ page.marks.as_table }}</summary>
{{ table(block.table) }}
</details>
{% endif %}{% elif block.kind == "list" %}<ul>{% for item in block.points %}<li>{{ text(item) }}</li>{% endfor %}</ul>
{% elif block.kind == "commands" %}<pre><code>{{ block.code }}</code></pre>
{% endif %}{% endfor %}</section>
{% if loop.first %}<nav aria-label="{{ page.marks.contents }}"><h3>{{ page.marks.contents }}</h3><ul>
{%- for other in page.sections[1:] %}<li><a href="#{{ other.key }}">{{ other.title.text | line }}</a></li>{% endfor %}</ul></nav>
{% endif %}{% endfor %}
<footer><p>{{ page.marks.made_by | line }}</p></footer>
</main>
</body>
</html>
"""
