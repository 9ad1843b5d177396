#!/usr/bin/env python3
"""Records a terminal session with the demo agent as an SVG picture, for the README.

    python3 packaging/record-terminal.py PROGRAM docs/images/terminal.svg

It types into a real terminal (tmux, with its own home), waits for the program's output, reads the screen
with its colours, and draws it. Needs only Python 3 and tmux.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

COLUMNS, ROWS = 80, 40

# What to type, and what must appear on the screen before the next step.
STEPS = [
    ('angelia run "hello"\n', "'!help'"),
    ("angelia run -s review '!ask cargo test'\n", "[y]es"),
    ("y\n", "You allowed"),
    ("angelia sessions list\n", "hello"),
]

PROMPT = "$ "
SECONDS = 30

# Colours with enough contrast on the window's own background, which is dark everywhere.
BACKGROUND, BORDER, FOREGROUND, FAINT = "#0d1117", "#30363d", "#e6edf3", "#8b949e"
PALETTE = ["#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#e6edf3"]
CELL_WIDTH, LINE_HEIGHT, MARGIN, TITLE_HEIGHT = 8.4, 19, 16, 34

# A style is (colour, bold, faint).
PLAIN, BOLD = (None, False, False), (None, True, False)


class Terminal:
    """A private tmux server with one window."""

    def __init__(self, folder, program):
        self.socket = os.path.join(folder, "tmux.sock")
        self.home = os.path.join(folder, "home")
        project = os.path.join(self.home, "project")
        tools = os.path.join(folder, "bin")
        os.makedirs(project)
        os.mkdir(tools)
        os.symlink(os.path.abspath(program), os.path.join(tools, "angelia"))
        environment = ["env", "-i", "TERM=tmux-256color", "LANG=C.UTF-8", f"HOME={self.home}", f"PATH={tools}", f"PS1={PROMPT}"]
        shell = [*environment, shutil.which("bash"), "--norc", "--noprofile"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", project, *shell)
        self.wait_for(lambda screen: screen.startswith(PROMPT.strip()))

    def tmux(self, *arguments):
        command = ["tmux", "-u", "-S", self.socket, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options).rstrip("\n")

    def type(self, text):
        for part in re.split(r"(\n)", text):
            if part:
                self.tmux("send-keys", *(["Enter"] if part == "\n" else ["-l", part]))

    def wait_for(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition(self.screen()):
            if time.monotonic() > deadline:
                sys.exit(f"the screen did not change as expected:\n{self.screen()}")
            time.sleep(0.1)

    def close(self):
        self.tmux("kill-server")


def record(program):
    """Returns the lines of the screen, with escape sequences, after all steps."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        terminal = Terminal(folder, program)
        try:
            for keys, expected in STEPS:
                seen = terminal.screen().count(expected)
                # A question ignores text that was typed before a person could have read it.
                time.sleep(0.8)
                terminal.type(keys)
                typed = keys.count(expected)
                terminal.wait_for(lambda screen: screen.count(expected) > seen + typed)
            terminal.wait_for(lambda screen: screen.endswith("\n" + PROMPT.strip()))
            # The folder's real name differs each time and means nothing to a reader.
            lines = terminal.screen("-e").replace(terminal.home, "/home/you").split("\n")
            return [line for line in lines if line != PROMPT.strip()]
        finally:
            terminal.close()


def runs(line, style):
    """Splits a line into (column, text, style); returns them and the style at its end."""
    found, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        escape = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if escape:
            style = apply(style, escape.group(1))
        elif part:
            found.append((column, part, style))
            column += len(part)
    return found, style


def apply(style, codes):
    """Returns the style after the codes of one escape sequence."""
    colour, bold, faint = style
    for code in (int(code or 0) for code in codes.split(";")):
        if code == 0:
            colour, bold, faint = PLAIN
        elif code == 1:
            bold = True
        elif code == 2:
            faint = True
        elif code == 22:
            bold = faint = False
        elif code == 39:
            colour = None
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = PALETTE[code % 10]
    return colour, bold, faint


def draw(lines):
    """Returns the SVG. Every run of text has a fixed position and width, so any monospaced font fits."""
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = TITLE_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img">',
        "<title>angelia run answers in a terminal, asks before it runs a command, and lists its sessions</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8" fill="{BACKGROUND}" stroke="{BORDER}"/>',
    ]
    for number, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"]):
        out.append(f'<circle cx="{20 + 18 * number}" cy="18" r="5.5" fill="{colour}"/>')
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"
    out.append(f'<g font-family="{font}" font-size="14" fill="{FOREGROUND}" xml:space="preserve">')
    style = PLAIN
    for number, line in enumerate(lines):
        y = TITLE_HEIGHT + LINE_HEIGHT * (number + 0.75)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if plain.startswith(PROMPT):
            found, style = [(0, plain, BOLD)], PLAIN
        else:
            found, style = runs(line, style)
        for column, text, run_style in found:
            out.append(draw_run(column, y, text, run_style))
    return "\n".join([*out, "</g>", "</svg>", ""])


def draw_run(column, y, text, style):
    colour, bold, faint = style
    lead = len(text) - len(text.lstrip(" "))
    column, text = column + lead, text.strip(" ")
    if not text:
        return ""
    fill = colour or (FAINT if faint else None)
    attributes = f'x="{MARGIN + column * CELL_WIDTH:.1f}" y="{y:g}" textLength="{len(text) * CELL_WIDTH:.1f}"'
    attributes += f' fill="{fill}"' if fill else ""
    attributes += ' font-weight="600"' if bold else ""
    return f"<text {attributes}>{html.escape(text, quote=False)}</text>"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: record-terminal.py PROGRAM FILE.svg")
    picture = draw(record(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(re.sub(r"\n+", "\n", picture))


main()
