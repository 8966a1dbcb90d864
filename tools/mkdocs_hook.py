"""MkDocs hook: add pages from outside docs/ to the site and make links between files work there.

Pages link to files of the checkout, so that they can be read in an editor and on the code host.
On the site a link to a page leads to that page, a link to any other file to the code host.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# File of the checkout: page of the site.
PAGES = {
    **{"README.md": "index.md", "results/README.md": "result_files.md"},
    **{f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "design", "changelog")},
    **{
        str(path.relative_to(ROOT)): f"examples/{path.parent.name}.md"
        for path in sorted((ROOT / "examples").glob("*/README.md"))
    },
}
FILES = {page: file for file, page in PAGES.items()}
ROLE = re.compile(r":(?:class|data|func|meth|mod):<code>~?(?:[\w.]*\.)?(\w+)</code>")
LINK = re.compile(r"(?:(?<=\]\()|(?<=\]: ))(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\)|$)", re.M)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside docs/."""
    for file, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with its links rewritten for the site."""
    here = page.file.src_uri
    folder = posixpath.dirname(FILES.get(here, f"docs/{here}"))
    hosted = re.compile(rf"^{re.escape(config.repo_url)}/(?:blob|raw)/main/")

    def rewrite(link: re.Match[str]) -> str:
        path, anchor = link["path"], link["anchor"] or ""
        if hosted.match(path):
            target = hosted.sub("", path)
        elif ":" in path:
            return link[0]
        else:
            target = posixpath.normpath(posixpath.join(folder, path))
        if target in PAGES or target.startswith("docs/"):
            site = PAGES.get(target, target.removeprefix("docs/"))
            return posixpath.relpath(site, posixpath.dirname(here) or ".") + anchor
        if (ROOT / target).exists():
            return f"{config.repo_url}/blob/main/{target}{anchor}"
        return link[0]

    return LINK.sub(rewrite, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with the cross-references of docstrings as plain code."""
    return ROLE.sub(r"<code>\1</code>", html)
