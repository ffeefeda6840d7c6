"""Settings of the documentation site (`make docs-site`); its pages are the files of docs/."""

project = "planner"
extensions = ["myst_parser"]
exclude_patterns = ["README.md", "page"]
html_theme = "furo"
html_title = "planner"
html_show_sphinx = False
myst_heading_anchors = 3
# Links to files outside of docs/ have no page; tests/docs holds that each leads somewhere.
suppress_warnings = ["myst.xref_missing"]
