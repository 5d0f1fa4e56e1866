"""How hard the pages are to read: `python -m benchmarks.prose [COMMIT]`.

Prints for each page of prose its words, the share of sentences over 30 words, and the pronoun-like
words per 100 words; with a commit, that commit's pages. Code blocks, tables' rules, links' targets
and HTML comments are left out; a table's cell is a sentence of its own.

The pronoun-like words are those that stand for a noun the reader must look for: it, they, this,
that, which, who, what, one, other, so, such. Some of them have their noun; they are not told apart.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONG_WORDS = 30
PRONOUNS = frozenset(
    re.findall(
        r"\w+",
        "it its itself they them their this these that those which who whom whose what whoever "
        "one ones other others so such",
    )
)
GENERATED = ("CHANGELOG.md", "docs/decisions/", "renames.md", "configuration.md", "docs/openapi")

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


@dataclass(frozen=True, slots=True)
class Readability:
    """Counts of one page, or of several together."""

    words: int = 0
    sentences: int = 0
    long: int = 0
    pronouns: int = 0

    def __add__(self, other: "Readability") -> "Readability":
        return Readability(
            self.words + other.words,
            self.sentences + other.sentences,
            self.long + other.long,
            self.pronouns + other.pronouns,
        )

    def format_line(self, name: str) -> str:
        """Return a line of the table: name, words, share of long sentences, pronouns per 100."""
        long = 100 * self.long / max(self.sentences, 1)
        pronouns = 100 * self.pronouns / max(self.words, 1)
        return f"{name:44} {self.words:7} {long:8.1f} % {pronouns:8.1f}"


def measure(text: str) -> Readability:
    """Count the words, sentences and pronoun-like words of a page of Markdown."""
    total = Readability()
    for sentence in iter_sentences(text):
        words = [word.lower() for word in _WORD.findall(sentence)]
        if len(words) < 3:
            continue
        pronouns = sum(word in PRONOUNS for word in words)
        total += Readability(len(words), 1, len(words) > LONG_WORDS, pronouns)
    return total


def iter_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page of Markdown, without code blocks and links' targets."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^ {4,}\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    for block in re.split(r"\n\s*\n|\n(?=[-*|#] ?)|\|", text):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


def read_pages(commit: str | None) -> dict[str, str]:
    """Return the text of each page by its path, in the working tree or in a commit."""
    words = ["git", "ls-tree", "-r", "--name-only", commit or "HEAD"]
    names = [
        name
        for name in _run_git(*words).splitlines()
        if name.endswith(".md")
        and name.startswith(("README", "docs/", "slurm_plugin/", "deploy/"))
        and not any(part in name for part in GENERATED)
    ]
    if commit is None:
        return {name: Path(name).read_text(encoding="utf-8") for name in names}
    return {name: _run_git("git", "show", f"{commit}:{name}") for name in names}


def _run_git(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print the table."""
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"{'page':44} {'words':>7} {'over 30':>10} {'pronouns':>8}")
    total = Readability()
    for name, text in read_pages(commit).items():
        found = measure(text)
        total += found
        print(found.format_line(name))
    print(total.format_line("all"))


if __name__ == "__main__":
    main()
