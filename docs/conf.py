"""The documentation site: `make docs` builds it into build/docs, and fails on any warning."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from shardproof import __version__  # noqa: E402 - found through the line above

project = "Shardproof"
author = "The Shardproof authors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "notes"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "text"
copybutton_prompt_text = "$ "

html_theme = "furo"
html_title = f"Shardproof {version}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
