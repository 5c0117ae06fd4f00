"""The pages, for Jinja with autoescape on: every text that is put in is escaped, but for what the report's own printer made."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_BASE: Final = """\
<!doctype html>
<html lang="{{ html_language }}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ w("title") }}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
{% block head %}{% endblock %}
</head>
<body>
{% block body %}{% endblock %}
<footer>{{ w("footer", version=version, machine=machine) }}</footer>
</body>
</html>
"""
_PAGE: Final = """\
{% extends "base.html" %}
{% block head %}<script src="/page.js" defer></script>{% endblock %}
{% block body %}
<header>
<h1>{{ w("heading") }}</h1>
<p>{{ w("intro") }}</p>
<nav><a href="/?{{ other_query }}" lang="{{ 'en' if language == 'zh' else 'zh-Hans' }}">{{ w("other_language") }}</a> · <a href="/?lang={{ language }}">{{ w("start") }}</a></nav>
</header>
<main>
<form id="asked" method="get" action="/" autocomplete="off">
<input type="hidden" name="lang" value="{{ language }}">
{% for group in groups %}
<details{% if group.open %} open{% endif %}>
<summary>{{ w("group." ~ group.name) }}</summary>
{% if group.name in ("machine", "price", "model") %}<p class="hint">{{ w("hint." ~ group.name) }}</p>{% endif %}
<div class="fields">
{% for field in group.fields %}
<label for="f-{{ field.name }}">{{ w("field." ~ field.name) }}</label>
{% if field.options %}
<select id="f-{{ field.name }}" name="{{ field.name }}"{% if field.wrong %} aria-invalid="true" aria-describedby="refused"{% endif %}>
{% for value, label in field.options %}
<option value="{{ value }}"{% if value == field.value %} selected{% endif %}>{{ label }}</option>
{% endfor %}
</select>
{% else %}
<input id="f-{{ field.name }}" name="{{ field.name }}" value="{{ field.value }}" maxlength="200"{% if field.number %} inputmode="decimal"{% endif %}{% if field.wrong %} aria-invalid="true" aria-describedby="refused"{% endif %}>
{% endif %}
{% endfor %}
</div>
</details>
{% endfor %}
{% if kept %}<p class="hint">{{ w("kept", names=kept) }}</p>{% endif %}
<button>{{ w("go") }}</button>
</form>
<div id="result" aria-live="polite">
{% include "result.html" %}
</div>
</main>
{% endblock %}
"""
_RESULT: Final = """\
{% if refused %}
<p id="refused" class="refused" role="alert">{{ w("refused") }} <span lang="en">{{ refused }}</span></p>
{% else %}
{% for told in pending %}
<p class="note" role="status" data-pending>{{ told }}</p>
{% endfor %}
{{ sections }}
<section id="keep">
<h2>{{ w("save.heading") }}</h2>
<form method="post" action="/save">
<input type="hidden" name="csrf" value="{{ csrf }}">
{% for name, value in hidden %}
<input type="hidden" name="{{ name }}" value="{{ value }}">
{% endfor %}
{% if file %}
<button name="do" value="save">{{ w("save.replace" if exists else "save.new", name=file) }}</button>
{% else %}
<p class="hint">{{ w("save.no_file") }}</p>
{% endif %}
<button name="do" value="download">{{ w("save.download") }}</button>
</form>
</section>
{% endif %}
"""
_SAVED: Final = """\
{% extends "base.html" %}
{% block body %}
<main class="plain">
<h1>{{ w("save.heading") }}</h1>
<p role="status">{{ told }}</p>
{% if asks %}
<form method="post" action="/save">
<input type="hidden" name="csrf" value="{{ csrf }}">
<input type="hidden" name="seen" value="{{ seen }}">
{% for name, value in hidden %}
<input type="hidden" name="{{ name }}" value="{{ value }}">
{% endfor %}
<button name="do" value="save">{{ w("save.replace_now", name=file) }}</button>
</form>
{% endif %}
<p><a href="/?{{ back }}">{{ w("save.back") }}</a></p>
</main>
{% endblock %}
"""
_LOCKED: Final = """\
{% extends "base.html" %}
{% block body %}
<main class="plain">
<h1>{{ w("locked.title") }}</h1>
<p>{{ w("locked.text") }}</p>
<form method="get" action="/" autocomplete="off">
<label for="token">{{ w("locked.field") }}</label>
<input id="token" name="token" type="password" maxlength="200" required>
<button>{{ w("locked.go") }}</button>
</form>
</main>
{% endblock %}
"""
TEMPLATES: Final = MappingProxyType(
    {
        "base.html": _BASE,
        "page.html": _PAGE,
        "result.html": _RESULT,
        "saved.html": _SAVED,
        "locked.html": _LOCKED,
    }
)
