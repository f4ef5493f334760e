#!/usr/bin/env bash
# Puts long English texts, for measuring language models, into build/texts, out of Debian's packages
# bible-kjv (bible.txt) and anarchism (anarchism.txt, markup removed). Run again, it does
# only what is missing. The packages are unpacked, not installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

texts=$root/build/texts
[ -f "$texts/bible.txt" ] && [ -f "$texts/anarchism.txt" ] && exit 0
command -v apt-get > /dev/null || die "the texts come from Debian's packages, and this system has no apt-get"
work=$texts/work
rm -rf "$work"
mkdir -p "$work"

download() {
  cd "$work"
  # As root apt-get would fetch as a user who may not write here, and warns.
  apt-get -o APT::Sandbox::User=root download anarchism bible-kjv bible-kjv-text
  local package
  for package in *.deb; do dpkg-deb -x "$package" .; done
}

bible() { "$work/usr/bin/bible" -p "$work/usr/lib" -d bible.data gen1:1-rev22:21; }

anarchism() {
  python3 - "$work/usr/share/doc/anarchism/html" << 'END'
import html.parser, pathlib, re, sys

class Text(html.parser.HTMLParser):
    """The text of a page; a line a paragraph."""

    BLOCKS = {"p", "br", "div", "li", "h1", "h2", "h3", "h4", "blockquote", "tr"}

    def __init__(self):
        super().__init__()
        self.parts, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style", "title")
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "title")
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(re.sub(r"\s+", " ", data))

# The sections in their order; links and lists of contents are pages of few words.
for path in sorted(pathlib.Path(sys.argv[1]).glob("sec*.html")):
    page = Text()
    page.feed(path.read_text(encoding="utf-8", errors="replace"))
    lines = (line.strip() for line in "".join(page.parts).split("\n"))
    print("\n".join(line for line in lines if line))
END
}

step texts-fetch download
for name in bible anarchism; do
  "$name" > "$texts/$name.txt.part"
  [ "$(wc -c < "$texts/$name.txt.part")" -gt 2000000 ] || die "the text of $name is not whole"
  mv "$texts/$name.txt.part" "$texts/$name.txt"
done
rm -rf "$work"
