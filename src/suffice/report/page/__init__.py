"""The report page: one model of sections and blocks, printed as HTML, Markdown and JSON, in English and Chinese.

``build.build_page`` makes the model, ``html.page_html``, ``markdown.page_markdown`` and ``document.page_document`` print it. All numbers
are made into text once, in the model, so that the three forms agree to the digit.
"""
