"""A browser's window on the dashboard that remembers what it complained of and where it went."""

from __future__ import annotations

from typing import Any


class Window:
    """``page`` is Playwright's."""

    def __init__(self, context: Any, url: str) -> None:
        context.set_default_timeout(15_000)
        self.context = context
        self.page = context.new_page()
        self._url = url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} at {self.page.url}")

    def go(self, path: str) -> Any:
        answer = self.page.goto(self._url + path)
        assert answer.status == 200, f"{path}: {answer.status}"
        return self.page

    def assert_quiet(self) -> None:
        foreign = [url for url in self.requests if not url.startswith(self._url)]
        assert not self.complaints and not foreign, f"complaints: {self.complaints}, foreign requests: {foreign}"

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
