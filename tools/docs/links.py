"""Follows the links of a built site: every page, picture, script and anchor that a page names must be in the site.

Links to other hosts are counted, not followed: a build must not depend on a network. The theme's own search and
navigation scripts make no links of their own.
"""
import html.parser
import pathlib
import urllib.parse

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src", "object": "data"}


class Page(html.parser.HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = {"", "top"}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.anchors.update(v for k, v in attrs if v and (k == "id" or (k == "name" and tag == "a")))
        link = named.get(LINKS.get(tag, ""))
        if link is not None and named.get("rel") != "canonical":
            self.links.append((self.getpos()[0], link))


def check(site):
    """(problems, addresses outside the site, number of links followed)"""
    site = pathlib.Path(site).resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    problems, outside, followed = [], set(), 0
    for path, page in pages.items():
        for line, link in page.links:
            where = f"{path.relative_to(site)}:{line}: {link}"
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("data", "mailto", "javascript"):
                    outside.add(link)
                continue
            followed += 1
            name = urllib.parse.unquote(parts.path)
            target = path if not name else site / name.lstrip("/") if name.startswith("/") else path.parent / name
            target = target.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or site not in target.parents:
                problems.append(f"{where}: no such file")
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                    problems.append(f"{where}: no such place on the page")
    return problems, outside, followed, len(pages)


def report(site):
    """Prints what is wrong; 1 where something is."""
    problems, outside, followed, count = check(site)
    for address in sorted(outside):
        print(f"docs: outside, not followed: {address}")
    for problem in problems:
        print(f"docs: dead link: {problem}")
    print(f"docs: {count} pages, {followed} links, {len(problems)} dead")
    return 1 if problems or not count else 0
